/** The fingerprint of a payload: equal for equal requests, whatever their key order, white space or number form. */

import { hex, sha256, utf8 } from '../near/bytes';
import { byCodePoint, digitsOf, type Json } from '../near/exact';
import { Invalid } from '../near/invalid';

const MAX_DEPTH = 64;
const MAX_DIGITS = 400;

export async function fingerprint(kind: string, payload: Json): Promise<string> {
    const text = `${JSON.stringify(kind)}\n${written(payload, 0)}`;
    return `v1:${hex(await sha256(utf8(text))).slice(0, 40)}`;
}

function written(value: Json, depth: number): string {
    if (depth > MAX_DEPTH) throw new Invalid('payload', `nested deeper than ${MAX_DEPTH} levels`);
    if (typeof value === 'bigint') return value.toString();
    if (typeof value === 'number') return numeral(String(value));
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    if (Array.isArray(value)) return `[${value.map((item) => `${written(item, depth + 1)},`).join('')}]`;
    const names = Object.keys(value).sort(byCodePoint);
    return `{${names.map((name) => `${JSON.stringify(name)}:${written(value[name] ?? null, depth + 1)},`).join('')}}`;
}

/** 1, 1.0 and 1e0 are one number; so are 1e23 and the integer with 23 zeros. */
function numeral(text: string): string {
    const [, sign = '', digits = '', power = '0'] = /^(-?)([0-9]+)e(-?[0-9]+)$/.exec(digitsOf(text)) ?? [];
    if (digits === '') return '0';
    const zeros = parseInt(power, 10);
    if (zeros < 0) return `${sign}${digits}e${zeros}`;
    if (digits.length + zeros > MAX_DIGITS) throw new Invalid('payload', `a number has more than ${MAX_DIGITS} digits`);
    return `${sign}${digits}${'0'.repeat(zeros)}`;
}
