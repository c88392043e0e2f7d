/** Borsh, the part of it that NEAR transactions use. Reading never trusts a length. */

import { join, utf8, type Bytes } from './bytes';
import { Invalid } from './invalid';

export const U64_MAX = (1n << 64n) - 1n;
export const U128_MAX = (1n << 128n) - 1n;

export function u8(value: number): Bytes {
    return Uint8Array.of(value);
}

export function uint(value: bigint, size: number): Bytes {
    const bytes = new Uint8Array(size);
    for (let at = 0; at < size; at++) bytes[at] = parseInt(((value >> BigInt(8 * at)) & 255n).toString(), 10);
    return bytes;
}

export const u16 = (value: number): Bytes => uint(BigInt(value), 2);
export const u32 = (value: number): Bytes => uint(BigInt(value), 4);
export const u64 = (value: bigint): Bytes => uint(value, 8);
export const u128 = (value: bigint): Bytes => uint(value, 16);

export function blob(value: Uint8Array): Bytes {
    return join(u32(value.length), value);
}

export function string(value: string): Bytes {
    return blob(utf8(value));
}

export function list(items: readonly Uint8Array[]): Bytes {
    return join(u32(items.length), ...items);
}

/** Reads front to back; everything that does not fit is one clear error naming the byte. */
export class Reader {
    private at = 0;

    constructor(
        private readonly data: Uint8Array,
        private readonly field: string,
    ) {}

    take(size: number): Bytes {
        const left = this.data.length - this.at;
        if (size > left) throw this.wrong(`ends too early: ${size} bytes wanted, ${left} left`);
        this.at += size;
        return Uint8Array.from(this.data.subarray(this.at - size, this.at));
    }

    u8(): number {
        return this.take(1)[0] ?? 0;
    }

    uint(size: number): bigint {
        return this.take(size).reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
    }

    u16(): number {
        return parseInt(this.uint(2).toString(), 10);
    }

    u32(): number {
        return parseInt(this.uint(4).toString(), 10);
    }

    u64(): bigint {
        return this.uint(8);
    }

    u128(): bigint {
        return this.uint(16);
    }

    blob(): Bytes {
        return this.take(this.u32());
    }

    string(): string {
        try {
            return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.blob());
        } catch (error) {
            if (error instanceof Invalid) throw error;
            throw this.wrong('a string is not UTF-8');
        }
    }

    /** A list whose items have at least `least` bytes each. */
    list<T>(least: number, read: () => T): T[] {
        const count = this.u32();
        if (count * least > this.data.length - this.at) throw this.wrong(`a list claims ${count} items, more than fit into the rest`);
        return Array.from({ length: count }, read);
    }

    end(): void {
        const left = this.data.length - this.at;
        if (left > 0) throw this.wrong(`${left} bytes are left over`);
    }

    wrong(problem: string): Invalid {
        return new Invalid(this.field, `is not valid borsh at byte ${this.at}: ${problem}`);
    }
}
