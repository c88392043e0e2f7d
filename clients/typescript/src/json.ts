/** JSON in which no digit is lost: amounts beyond 2^53 are neither rounded when sent nor when read. */
import { BadAnswerError } from './errors.js';

const LARGEST = '9007199254740991';
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A bigint becomes a decimal string, as the API takes amounts. A number that was rounded already is refused. */
export function encode(value: unknown): string {
    return JSON.stringify(value, (name, found: unknown) => {
        if (typeof found === 'bigint') return found.toString();
        if (typeof found === 'number' && (!Number.isFinite(found) || (Number.isInteger(found) && !Number.isSafeInteger(found))))
            throw new TypeError(`${name || 'value'}: ${found} is not exact as a number; pass a string or a bigint`);
        return found;
    });
}

/** Whole numbers beyond 2^53 become decimal strings; everything else is as JSON.parse reads it. */
export function decode(text: string): unknown {
    // Most answers hold no long number, and pay for one search only.
    const exact = /\d{16}/.test(text) ? text.replace(TOKENS, (token) => (isUnsafe(token) ? `"${token}"` : token)) : text;
    try {
        return JSON.parse(exact);
    } catch (cause) {
        throw new BadAnswerError('what came back is not JSON', cause);
    }
}

function isUnsafe(token: string): boolean {
    if (!/^-?\d+$/.test(token)) return false;
    const digits = token.replace('-', '');
    return digits.length > LARGEST.length || (digits.length === LARGEST.length && digits > LARGEST);
}
