/** How nodes are asked: JSON-RPC over HTTP, bounded in time and size, every answer read exactly. */

import { parse, stringify, type Json } from '../near/exact';
import { isObject } from '../near/fields';
import { readError, type Failure } from '../near/verdicts';
import type { Ask, Reply } from './nodes';

const MOST_BYTES = 16 * 1024 * 1024;

export function http(urls: readonly string[], asked: () => void): Ask {
    return async (node, method, params, timeoutMs) => {
        asked();
        const body = stringify({ jsonrpc: '2.0', id: 'txmanager', method, params });
        try {
            const headers = { 'content-type': 'application/json' };
            const signal = AbortSignal.timeout(timeoutMs);
            const response = await fetch(urls[node] ?? '', { method: 'POST', body, headers, signal });
            return read(response.status, await response.text());
        } catch (error) {
            // refused, reset, timed out: perhaps the node has the bytes, perhaps not. Its address stays out of the words.
            return { failure: { sort: 'unavailable', message: error instanceof Error ? error.name : 'no answer' } };
        }
    };
}

function read(status: number, text: string): Reply {
    if (status === 429) return failed('rate_limited', status, 'too many requests');
    if (status === 413) return failed('too_large', status, 'the request is too large for this node');
    if (text.length > MOST_BYTES) return failed('bad_answer', status, 'more bytes than are read');
    let told: Json;
    try {
        told = parse(text);
    } catch {
        return failed(status >= 500 ? 'unavailable' : 'bad_answer', status, `HTTP ${status} without JSON`);
    }
    if (!isObject(told)) return failed('bad_answer', status, 'no JSON-RPC answer');
    if (told['error'] !== undefined) return { failure: readError(told['error'], status) };
    const result = told['result'];
    return result === undefined ? failed('bad_answer', status, 'neither a result nor an error') : { ok: result };
}

function failed(sort: Failure['sort'], status: number, message: string): Reply {
    return { failure: { sort, status, message } };
}
