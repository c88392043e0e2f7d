/** Weighted rendezvous hashing: which lane a *new* intent goes to. Every producer with the same lanes makes one choice. */

import { byCodePoint } from '../near/exact';
import { hash64 } from './blake2b';

const MASK = (1n << 64n) - 1n;
const HOMES = 1024n;
/** A pool of so many lanes is compared one by one. A larger one needs the Python stack, which goes down a tree. */
export const MOST_LANES = 64;

export interface Member {
    name: string;
    weight: number;
}

function mix(value: bigint): bigint {
    value = ((value ^ (value >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
    value = ((value ^ (value >> 27n)) * 0x94d049bb133111ebn) & MASK;
    return value ^ (value >> 31n);
}

/** undefined: there is no lane. */
export function choose(members: readonly Member[], partitionKey: string): string | undefined {
    const key = hash64(partitionKey);
    const known = members.filter(({ weight }) => weight > 0).map((member) => ({ ...member, seed: hash64(member.name) }));
    known.sort((one, other) => compare(one.seed, other.seed) || byCodePoint(one.name, other.name));
    const equal = new Set(known.map(({ weight }) => weight)).size <= 1;
    let best: { name: string; score: bigint | number } | undefined;
    for (const { name, weight, seed } of known) {
        const mixed = mix(key ^ seed);
        const score = equal ? mixed : -weight / Math.log(parseFloat((mixed + 1n).toString()) / 2 ** 64);
        if (best === undefined || score > best.score) best = { name, score };
    }
    return best?.name;
}

function compare(one: bigint, other: bigint): number {
    if (one === other) return 0;
    return one < other ? -1 : 1;
}

/** The slot of a key, for ever: it must not depend on the pool's lanes. */
export function homeOf(id: string): number {
    return parseInt((hash64(id) % HOMES).toString(), 10);
}
