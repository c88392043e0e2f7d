/**
 * Who asks: an HMAC over everything that decides what a request does. Producers and owners have secrets of their own, so
 * that nothing that accepts intents can take a lane. Two of each may be valid at once, to be replaced without a pause.
 */

import type { Env, Role } from './object';

const VALID_MS = 60_000;
const SHORTEST_SECRET = 32;
const DOMAIN = 'txmanager/ledger/1';
const text = new TextEncoder();

export interface Asked {
    role: Role;
    /** Random, and signed with the rest. */
    request: string;
}

/** null: nobody we know, or too long ago. */
export async function identify(request: Request, body: ArrayBuffer, env: Env, now: number): Promise<Asked | null> {
    const found = /^TXM1 (\d{13})\.([0-9a-f]{32})\.([0-9a-f]{64})$/.exec(request.headers.get('authorization') ?? '');
    if (found === null) return null;
    const [, time = '', nonce = '', mac = ''] = found;
    if (Math.abs(now - parseInt(time, 10)) > VALID_MS) return null;
    const { pathname, search } = new URL(request.url);
    const digest = hex(await crypto.subtle.digest('SHA-256', body));
    const parts = [DOMAIN, env.AUDIENCE, request.method, pathname, search, time, nonce, digest];
    const message = text.encode(parts.join('\n'));
    for (const [role, secrets] of [['owner', env.OWNER_SECRETS], ['producer', env.PRODUCER_SECRETS]] as const) {
        for (const secret of secrets.split(' ')) {
            if (secret.length >= SHORTEST_SECRET && (await matches(secret, message, mac))) return { role, request: nonce };
        }
    }
    return null;
}

async function matches(secret: string, message: Uint8Array, mac: string): Promise<boolean> {
    const bytes = Uint8Array.from(mac.match(/../g) ?? [], (pair) => parseInt(pair, 16));
    return crypto.subtle.verify('HMAC', await keyOf(secret), bytes, message);
}

const keys = new Map<string, Promise<CryptoKey>>();

function keyOf(secret: string): Promise<CryptoKey> {
    const known = keys.get(secret);
    if (known !== undefined) return known;
    const made = crypto.subtle.importKey('raw', text.encode(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
    keys.set(secret, made);
    return made;
}

function hex(bytes: ArrayBuffer): string {
    return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
