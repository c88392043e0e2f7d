/**
 * JSON whose numbers stay what they were written as: whole ones are bigints, the others are kept only if a double keeps
 * every digit. What is written looks as orjson writes it, so that both implementations sign the same bytes.
 */

import { Invalid } from './invalid';

export type Json = null | boolean | string | bigint | number | Json[] | JsonObject;
export interface JsonObject {
    [name: string]: Json;
}

// A string (unless it is a name), or a number.
const TOKEN = /"(?:[^"\\]|\\.)*"(\s*:)?|-?[0-9][0-9.eE+-]*/g;
const NUMBER = '\u0000#';
const TEXT = '\u0000$';

/** A `SyntaxError` where it is no JSON. A raw U+0000 is no JSON, so no text of the caller begins with a mark. */
export function parse(text: string): Json {
    JSON.parse(text);
    const marked = text.replace(TOKEN, (token: string, colon?: string) => {
        if (!token.startsWith('"')) return `"\\u0000#${token}"`;
        return colon === undefined && token.startsWith('"\\u0000') ? `"\\u0000$${token.slice(1)}` : token;
    });
    return JSON.parse(marked, (_, value: Json) => (typeof value === 'string' ? unmarked(value) : value)) as Json;
}

function unmarked(value: string): Json {
    if (value.startsWith(TEXT)) return value.slice(TEXT.length);
    return value.startsWith(NUMBER) ? numeral(value.slice(NUMBER.length)) : value;
}

function numeral(text: string): bigint | number {
    return /^-?[0-9]+$/.test(text) ? BigInt(text) : parseFloat(text);
}

/** As `parse`, of what a caller sent: a number that cannot be kept as it is, or half a character, is refused. */
export function parseExact(text: string): Json {
    const value = parse(text);
    check(value);
    for (const [token] of text.matchAll(TOKEN)) {
        if (token.startsWith('"') || /^-?[0-9]+$/.test(token)) continue;
        if (digitsOf(token) !== digitsOf(String(parseFloat(token)))) {
            throw new Invalid('body', `write ${token.slice(0, 40)} as a string: it has more digits than a JSON number keeps`);
        }
    }
    return value;
}

function check(value: Json): void {
    if (typeof value === 'bigint' && (value < -(1n << 63n) || value >= 1n << 64n)) {
        const shown = value.toString().slice(0, 40);
        throw new Invalid('body', `write ${shown} as a string: numbers beyond 64 bits do not survive JSON readers`);
    }
    if (typeof value === 'string' && !isWhole(value)) throw new Invalid('body', 'holds half of a character');
    if (typeof value !== 'object' || value === null) return;
    for (const [name, inner] of Object.entries(value)) {
        check(name);
        check(inner);
    }
}

/** Whether UTF-8 can carry it: no surrogate stands alone. */
export function isWhole(text: string): boolean {
    return !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text);
}

/** Sign, digits and exponent of a decimal, in one form: 1, 1.0 and 1e0 are equal. */
export function digitsOf(text: string): string {
    const [, sign = '', whole = '', part = '', power = '0'] = /^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$/.exec(text) ?? [];
    const digits = (whole + part).replace(/^0+/, '');
    if (digits === '') return '0';
    const short = digits.replace(/0+$/, '');
    return `${sign}${short}e${parseInt(power, 10) - part.length + digits.length - short.length}`;
}

/** `sorted`: names in the order of their code points, so that one value has one form. */
export function stringify(value: Json, sorted = false): string {
    if (typeof value === 'bigint') return value.toString();
    if (typeof value === 'number') return float(value);
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    if (Array.isArray(value)) return `[${value.map((item) => stringify(item, sorted)).join(',')}]`;
    const names = sorted ? Object.keys(value).sort(byCodePoint) : Object.keys(value);
    return `{${names.map((name) => `${JSON.stringify(name)}:${stringify(value[name] ?? null, sorted)}`).join(',')}}`;
}

/** The shortest digits that read back as the same double, laid out as Rust's ryu does. */
function float(value: number): string {
    if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
    const [, sign = '', first = '', rest = '', power = '0'] = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(value.toExponential()) ?? [];
    const digits = first + rest;
    const point = parseInt(power, 10) + 1;
    const zeros = point - digits.length;
    if (zeros >= 0 && point <= 16) return `${sign}${digits}${'0'.repeat(zeros)}.0`;
    if (point > 0 && point <= 16) return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
    if (point > -5 && point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
    return `${sign}${first}${rest === '' ? '' : `.${rest}`}e${point - 1}`;
}

export function byCodePoint(one: string, other: string): number {
    const left = Array.from(one);
    const right = Array.from(other);
    for (let at = 0; at < Math.min(left.length, right.length); at++) {
        const by = (left[at]?.codePointAt(0) ?? 0) - (right[at]?.codePointAt(0) ?? 0);
        if (by !== 0) return by;
    }
    return left.length - right.length;
}
