/** NEAR's names: account ids, public keys, lane ids. Whatever passes here is safe to put into a transaction. */

import { base58, fromBase58, join, type Bytes } from './bytes';
import { Invalid } from './invalid';

const ACCOUNT = /^(?:(?:[a-z\d]+[-_])*[a-z\d]+\.)*(?:[a-z\d]+[-_])*[a-z\d]+$/;
const CURVES = [
    { name: 'ed25519', key: 32, signature: 64 },
    { name: 'secp256k1', key: 64, signature: 65 },
    { name: 'ml-dsa-65', key: 1952, signature: 3309 },
] as const;

export function checkAccount(field: string, account: unknown): string {
    if (typeof account !== 'string' || account.length < 2 || account.length > 64 || !ACCOUNT.test(account)) {
        const shown = typeof account === 'string' ? account.slice(0, 80) : typeof account;
        throw new Invalid(field, `'${shown}' is not an account id: 2 to 64 of a-z 0-9, parts joined by . - or _ (alice.near)`);
    }
    return account;
}

/** `relayer.near` of `alice.relayer.near`; undefined of a top-level account. */
export function parent(account: string): string | undefined {
    const at = account.indexOf('.');
    return at === -1 ? undefined : account.slice(at + 1);
}

export interface PublicKey {
    curve: number;
    data: Bytes;
}

export function parseKey(text: unknown, field = 'public_key'): PublicKey {
    if (typeof text !== 'string') throw new Invalid(field, 'must be a string like ed25519:6E8s...');
    const at = text.indexOf(':');
    const name = at === -1 ? 'ed25519' : text.slice(0, at); // nearcore reads a bare key as ed25519
    const curve = CURVES.findIndex((known) => known.name === name);
    if (curve === -1) throw new Invalid(field, `curve '${name.slice(0, 20)}' is not supported; use ed25519, secp256k1, ml-dsa-65`);
    return { curve, data: parseBase58(field, text.slice(at + 1), keySize(curve)) };
}

export function keySize(curve: number): number {
    return CURVES[curve]?.key ?? 0;
}

export function signatureSize(curve: number): number {
    return CURVES[curve]?.signature ?? 0;
}

export function keyText({ curve, data }: PublicKey): string {
    return `${CURVES[curve]?.name ?? ''}:${base58(data)}`;
}

export function keyBytes({ curve, data }: PublicKey): Bytes {
    return join(Uint8Array.of(curve), data);
}

export function parseSignature(text: unknown, field: string): { curve: number; signature: Bytes } {
    const [name = '', rest = ''] = typeof text === 'string' ? text.split(':', 2) : [];
    const curve = CURVES.findIndex((known) => known.name === name);
    if (curve === -1) throw new Invalid(field, 'must be a string like ed25519:5w...');
    return { curve, signature: parseBase58(field, rest, signatureSize(curve)) };
}

function parseBase58(field: string, text: string, size: number): Bytes {
    if (text.length > 2 * size) throw new Invalid(field, `must be base58 of ${size} bytes`);
    const raw = fromBase58(text);
    if (raw === undefined) throw new Invalid(field, 'is not base58');
    if (raw.length !== size) throw new Invalid(field, `must be base58 of ${size} bytes, this one has ${raw.length}`);
    return raw;
}

/** `near:{network}:{account}:{public_key}`: one nonce sequence. Gas keys have more, which no resident serves. */
export interface LaneId {
    network: string;
    account: string;
    key: PublicKey;
}

export function parseLane(text: string): LaneId {
    const [chain, network = '', account, curve = '', data = '', ...more] = text.split(':');
    if (chain !== 'near' || network === '' || more.length > 0) {
        throw new Invalid('lane', 'a lane is near:{network}:{account}:{public_key}');
    }
    return { network, account: checkAccount('lane', account), key: parseKey(`${curve}:${data}`, 'lane') };
}
