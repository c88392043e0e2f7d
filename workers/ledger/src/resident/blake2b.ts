/** BLAKE2b (RFC 7693) without a key, of at most 8 bytes: what homes, routers and lane marks are made with, and WebCrypto lacks. */

import { utf8 } from '../near/bytes';

const MASK = (1n << 64n) - 1n;
const IV = [
    0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
    0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const SIGMA = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
/** Which four words each step of a round mixes. */
const STEPS = [
    [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
    [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14],
] as const;

/** The 8 bytes of the hash, read as one big-endian number. */
export function hash64(text: string): bigint {
    return swapped(firstWord(text, 8n));
}

/** 6 bytes as hex: a short name for a lane, in ids that clients keep. */
export function markOf(lane: string): string {
    return (swapped(firstWord(lane, 6n)) >> 16n).toString(16).padStart(12, '0');
}

function firstWord(text: string, size: bigint): bigint {
    const data = utf8(text);
    const state = IV.slice();
    state[0] = (state[0] ?? 0n) ^ 0x01010000n ^ size;
    const blocks = Math.max(1, Math.ceil(data.length / 128));
    for (let block = 0; block < blocks; block++) {
        const end = Math.min(data.length, (block + 1) * 128);
        compress(state, data.subarray(block * 128, end), BigInt(end), block === blocks - 1);
    }
    return state[0] & MASK;
}

function compress(state: bigint[], block: Uint8Array, counter: bigint, last: boolean): void {
    const words = Array.from({ length: 16 }, (_, at) => littleEndian(block.subarray(at * 8, at * 8 + 8)));
    const v = [...state, ...IV];
    const get = (at: number) => v[at] ?? 0n;
    v[12] = get(12) ^ counter;
    if (last) v[14] = get(14) ^ MASK;
    for (let round = 0; round < 12; round++) {
        const order = SIGMA[round % 10] ?? [];
        STEPS.forEach(([a, b, c, d], step) => {
            v[a] = (get(a) + get(b) + (words[order[2 * step] ?? 0] ?? 0n)) & MASK;
            v[d] = turned(get(d) ^ get(a), 32n);
            v[c] = (get(c) + get(d)) & MASK;
            v[b] = turned(get(b) ^ get(c), 24n);
            v[a] = (get(a) + get(b) + (words[order[2 * step + 1] ?? 0] ?? 0n)) & MASK;
            v[d] = turned(get(d) ^ get(a), 16n);
            v[c] = (get(c) + get(d)) & MASK;
            v[b] = turned(get(b) ^ get(c), 63n);
        });
    }
    for (let at = 0; at < 8; at++) state[at] = (state[at] ?? 0n) ^ get(at) ^ get(at + 8);
}

function turned(word: bigint, by: bigint): bigint {
    return ((word >> by) | (word << (64n - by))) & MASK;
}

function littleEndian(bytes: Uint8Array): bigint {
    return bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

function swapped(word: bigint): bigint {
    let out = 0n;
    for (let at = 0n; at < 64n; at += 8n) out = (out << 8n) | ((word >> at) & 255n);
    return out;
}
