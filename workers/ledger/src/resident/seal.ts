/**
 * Seals: proof that an intent was accepted by a script that knows the secret, exactly as it stands in the ledger. An HMAC
 * over everything that decides what is signed, and where; the bytes under it begin with their own name and the length of
 * every part, so no two intents share them.
 */

import { hex, join, utf8, type Bytes } from '../near/bytes';
import { parse, stringify } from '../near/exact';

const DOMAIN = 'txmanager/seal/1\0';
const SHORTEST_SECRET = 32;

/** An intent as it is stored; what a seal is made of. */
export interface Sealed {
    id: string;
    kind: string;
    fingerprint: string;
    life: string;
    lane: string;
    max_age_s: number | null;
    payload: string;
}

export function message(intent: Sealed): Bytes {
    const age = intent.max_age_s === null ? '' : String(intent.max_age_s);
    const head = [intent.id, intent.kind, '1', intent.fingerprint, intent.life, intent.lane, age];
    const payload = utf8(stringify(parse(intent.payload), true));
    const lengths = new DataView(new ArrayBuffer(36));
    head.forEach((part, at) => { lengths.setUint32(at * 4, Array.from(part).length); });
    lengths.setUint32(32, payload.length);
    return join(utf8(DOMAIN), new Uint8Array(lengths.buffer), utf8(head.join('')), payload);
}

export class Seals {
    private constructor(private readonly secrets: { name: string; key: CryptoKey }[]) {}

    /** Secrets with a space between them: the first seals, all verify, so one is replaced without a pause. */
    static async open(secrets: string): Promise<Seals> {
        const known = secrets.split(' ').filter((secret) => secret !== '');
        if (known.length === 0 || known.some((secret) => secret.length < SHORTEST_SECRET)) {
            throw new Error(`SEAL must hold secrets of at least ${SHORTEST_SECRET} characters; try openssl rand -hex 32`);
        }
        return new Seals(
            await Promise.all(
                known.map(async (secret) => {
                    const key = await crypto.subtle.importKey('raw', utf8(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
                    return { key, name: (await mac(key, utf8('txmanager/seal/name'))).slice(0, 8) };
                }),
            ),
        );
    }

    async seal(intent: Sealed): Promise<string> {
        const [first] = this.secrets;
        return first === undefined ? '' : `1.${first.name}.${await mac(first.key, message(intent))}`;
    }

    /** Never throws: whatever stands there was written by anybody. */
    async check(intent: Sealed, seal: string): Promise<'good' | 'missing' | 'unknown_secret' | 'wrong'> {
        if (seal === '') return 'missing';
        const secret = this.secrets.find(({ name }) => name === seal.slice(2, 10));
        if (secret === undefined) return 'unknown_secret';
        try {
            return `1.${secret.name}.${await mac(secret.key, message(intent))}` === seal ? 'good' : 'wrong';
        } catch {
            return 'wrong';
        }
    }
}

async function mac(key: CryptoKey, data: Bytes): Promise<string> {
    return hex(new Uint8Array(await crypto.subtle.sign('HMAC', key, data))).slice(0, 32);
}
