/** Reads the fields of a JSON object one by one; whatever nobody asked for, or has another type, is refused by its name. */

import { U128_MAX, U64_MAX } from './borsh';
import { fromBase64, type Bytes } from './bytes';
import type { Json, JsonObject } from './exact';
import { Invalid } from './invalid';
import { checkAccount, parseKey, type PublicKey } from './names';

export function isObject(value: Json | undefined): value is JsonObject {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export class Fields {
    private readonly left: Set<string>;

    constructor(
        private readonly value: JsonObject,
        private readonly at = '',
    ) {
        this.left = new Set(Object.keys(value));
    }

    static of(value: Json | undefined, field: string): Fields {
        if (!isObject(value)) throw new Invalid(field, 'must be an object');
        return new Fields(value, `${field}.`);
    }

    where(name: string): string {
        return `${this.at}${name}`;
    }

    /** undefined where it is not there. `null` counts as not there only where a field may be null. */
    take(name: string): Json | undefined {
        this.left.delete(name);
        return Object.hasOwn(this.value, name) ? this.value[name] : undefined;
    }

    text(name: string, most = 1_000_000, least = 0): string {
        const value = this.take(name);
        if (value === undefined) throw new Invalid(this.where(name), 'Field required');
        if (typeof value !== 'string') throw new Invalid(this.where(name), 'must be a string');
        if (value.length < least || value.length > most) throw new Invalid(this.where(name), `must have ${least} to ${most} characters`);
        return value;
    }

    maybeText(name: string, pattern: RegExp): string | null {
        const value = this.take(name) ?? null;
        if (value === null) return null;
        if (typeof value !== 'string' || !pattern.test(value)) throw new Invalid(this.where(name), `must match ${pattern.source}`);
        return value;
    }

    account(name: string): string {
        return checkAccount(this.where(name), this.text(name));
    }

    key(name: string): PublicKey {
        return parseKey(this.text(name), this.where(name));
    }

    bytes(name: string): Bytes {
        const raw = fromBase64(this.text(name, Infinity));
        if (raw === undefined) throw new Invalid(this.where(name), 'is not base64');
        return raw;
    }

    yocto(name: string, otherwise?: bigint): bigint {
        return this.whole(name, U128_MAX, 'yoctoNEAR', otherwise);
    }

    gas(name: string, otherwise: bigint): bigint {
        return this.whole(name, U64_MAX, 'gas', otherwise);
    }

    whole(name: string, limit: bigint, unit: string, otherwise?: bigint): bigint {
        const value = this.take(name);
        if (value === undefined && otherwise !== undefined) return otherwise;
        if (value === undefined) throw new Invalid(this.where(name), 'Field required');
        const found = typeof value === 'string' && /^[0-9]{1,40}$/.test(value) ? BigInt(value) : value;
        if (typeof found !== 'bigint' || found < 0n || found > limit) {
            throw new Invalid(this.where(name), `must be a whole number of ${unit} from 0 to ${limit}, as a decimal string`);
        }
        return found;
    }

    list(name: string): Json[] | undefined {
        const value = this.take(name);
        if (value !== undefined && !Array.isArray(value)) throw new Invalid(this.where(name), 'must be a list');
        return value;
    }

    end(): void {
        for (const name of this.left) throw new Invalid(this.where(name), 'is not a field of this request');
    }
}
