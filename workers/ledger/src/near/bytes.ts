/** Bytes: joined, hashed, and as hex, base64 and base58. */

const DIGITS = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const encoder = new TextEncoder();

export type Bytes = Uint8Array<ArrayBuffer>;

export function utf8(text: string): Bytes {
    return encoder.encode(text) as Bytes;
}

export function join(...parts: Uint8Array[]): Bytes {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let at = 0;
    for (const part of parts) {
        whole.set(part, at);
        at += part.length;
    }
    return whole;
}

export async function sha256(data: Bytes): Promise<Bytes> {
    return new Uint8Array(await crypto.subtle.digest('SHA-256', data));
}

export function hex(data: Uint8Array): string {
    return Array.from(data, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function base64(data: Uint8Array): string {
    let text = '';
    for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
    return btoa(text);
}

/** undefined: not base64, with its padding and nothing else. */
export function fromBase64(text: string): Bytes | undefined {
    if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function base58(data: Uint8Array): string {
    let number = 0n;
    for (const byte of data) number = (number << 8n) | BigInt(byte);
    let text = '';
    for (; number > 0n; number /= 58n) text = (DIGITS[parseInt((number % 58n).toString(), 10)] ?? '') + text;
    const zeros = data.findIndex((byte) => byte !== 0);
    return '1'.repeat(zeros === -1 ? data.length : zeros) + text;
}

/** undefined: another alphabet. */
export function fromBase58(text: string): Bytes | undefined {
    let number = 0n;
    for (const character of text) {
        const digit = DIGITS.indexOf(character);
        if (digit === -1) return undefined;
        number = number * 58n + BigInt(digit);
    }
    const body: number[] = [];
    for (; number > 0n; number >>= 8n) body.unshift(parseInt((number & 255n).toString(), 10));
    const zeros = /^1*/.exec(text)?.[0].length ?? 0;
    return Uint8Array.from([...new Array<number>(zeros).fill(0), ...body]);
}
