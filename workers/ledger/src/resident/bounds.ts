/** What a contract or a node chose to say, made fit to be kept: what does not fit is left out, and marked as cut. */

import { utf8 } from '../near/bytes';
import { stringify, type JsonObject } from '../near/exact';
import type { Outcome } from '../near/judge';

const MOST_BYTES = 8_192;
const MOST_TEXT = 512;

export function bounded(outcome: Outcome): Outcome {
    const { result, error } = outcome;
    if (size(result) + size(error ?? {}) <= MOST_BYTES) return outcome;
    return { ...outcome, result: cut(result), error: error === null ? null : cut(error) };
}

function size(value: JsonObject): number {
    return utf8(stringify(value)).length;
}

/** The largest fields first, until the rest is small. A value is kept whole or not at all, a text by its beginning. */
function cut(value: JsonObject): JsonObject {
    const kept: JsonObject = { ...value };
    const names = Object.keys(kept).sort((one, other) => weight(kept, other) - weight(kept, one));
    for (const name of names) {
        if (size(kept) <= MOST_BYTES / 2) break;
        const whole = kept[name];
        kept[name] = typeof whole === 'string' ? Array.from(whole).slice(0, MOST_TEXT).join('') : null;
        kept[`${name}_truncated`] = true;
    }
    return kept;
}

function weight(value: JsonObject, name: string): number {
    return stringify(value[name] ?? null).length;
}
