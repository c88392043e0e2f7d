/**
 * Many intents: one request for up to a thousand, or pages of lines for any number. Each is answered once, through lost
 * connections and slow rates. These are functions: an application that does not use them does not bundle them.
 */
import { check, pause } from './clock.js';
import { DERIVED, type TxManager } from './client.js';
import { BadAnswerError, TxManagerError, UnreachableError } from './errors.js';
import { backoffMs, exchange } from './exchange.js';
import { isLost, open, pieces } from './follow.js';
import { decode, encode } from './json.js';
import { readResult, readResults } from './records.js';
import { isWorthRetrying, refusal, retryAfterS } from './refusal.js';
import type { BatchIntent, BatchResult, CallOptions } from './types.js';

/** A page is what the server takes in at once. */
const PAGE = 256;

interface Line {
    readonly index: number;
    readonly body: string;
    /** What it was last answered with, if that may change. */
    refused?: BatchResult;
}

/**
 * Submit up to 1,000 intents in one request; one result each, in their order.
 *
 * ```ts
 * const results = await submitBatch(manager, [{ kind: 'near.transfer', payload, idempotencyKey: 'order-42' }]);
 * ```
 */
export async function submitBatch(manager: TxManager, intents: readonly BatchIntent[], options: CallOptions = {}): Promise<BatchResult[]> {
    const { transport, patience, pool } = manager.reach(options);
    const body = encode({ intents: intents.map((intent) => asLine(intent, pool)) });
    return readResults((await exchange(transport, { method: 'POST', path: '/v1/batches', body }, patience)).told);
}

/**
 * Submit any number of intents; one result each, as they come. One that is refused for a while (429, 503) is sent
 * again, after its successors. Keys that are missing are made up: give your own to make a second run replay the first.
 *
 * ```ts
 * for await (const { index, record, error } of submitMany(manager, readIntents())) if (error) report(index, error);
 * ```
 */
export async function* submitMany(
    manager: TxManager,
    intents: Iterable<BatchIntent> | AsyncIterable<BatchIntent>,
    options: CallOptions = {},
): AsyncGenerator<BatchResult, void, void> {
    const { pool } = manager.reach(options);
    let page: Line[] = [];
    let index = 0;
    for await (const intent of intents) {
        page.push({ index, body: encode(asLine(intent, pool)) });
        index += 1;
        if (page.length < PAGE) continue;
        yield* submitPage(manager, page, options);
        page = [];
    }
    yield* submitPage(manager, page, options);
}

/** An intent as the API reads it; a key that is missing is made up. */
function asLine(intent: BatchIntent, pool: string | undefined): object {
    const { kind, payload, partitionKey, maxAgeS, budgetKey, metadata } = intent;
    return {
        idempotency_key: intent.idempotencyKey ?? (DERIVED.has(kind) ? undefined : crypto.randomUUID()),
        kind,
        payload,
        pool: intent.pool ?? pool,
        partition_key: partitionKey,
        max_age_s: maxAgeS,
        budget_key: budgetKey,
        metadata,
    };
}

async function* submitPage(manager: TxManager, page: readonly Line[], options: CallOptions): AsyncGenerator<BatchResult, void, void> {
    const { transport, patience } = manager.reach(options);
    const { retryForMs, signal } = patience;
    let until = performance.now() + retryForMs;
    let waiting = page;
    for (let tries = 1; waiting.length > 0; tries += 1) {
        const again: Line[] = [];
        let pauseMs = backoffMs(tries);
        let answered = 0;
        let lost: unknown;
        try {
            const body = waiting.map((line) => `${line.body}\n`).join('');
            const headers = { 'content-type': 'application/x-ndjson' };
            const reply = await open(transport, { method: 'POST', path: '/v1/batches', headers, body }, patience);
            if (reply.status !== 200) {
                const seconds = retryAfterS(reply.headers.get('retry-after'));
                pauseMs = Math.max(pauseMs, (seconds ?? 0) * 1000);
                throw refusal(reply.status, await reply.text(), seconds);
            }
            for await (const text of pieces(reply, '\n', signal)) {
                const told = decode(text) as { readonly line?: number; readonly result?: string };
                if (told.result === 'ended') break;
                const line = waiting[answered];
                answered += 1;
                if (line === undefined || told.line !== answered) throw new BadAnswerError('what came back is no answer to a line');
                const result = readResult(line.index, told);
                if (result.record !== undefined) {
                    tries = 0;
                    until = performance.now() + retryForMs;
                }
                if (result.error?.status === undefined || !isWorthRetrying(result.error.status)) yield result;
                else {
                    pauseMs = Math.max(pauseMs, (result.error.retryAfterS ?? 1) * 1000);
                    again.push({ ...line, refused: result });
                }
            }
            if (answered < waiting.length) lost = new Error('the answer ended too early');
        } catch (error) {
            check(signal);
            if (!isLost(error) || (error instanceof TxManagerError && performance.now() + pauseMs > until)) throw error;
            lost = error;
        }
        waiting = [...again, ...waiting.slice(answered)];
        if (waiting.length === 0) return;
        if (performance.now() + pauseMs > until) {
            if (lost !== undefined) throw new UnreachableError(`${waiting.length} intents have no answer; send them again`, lost);
            for (const { refused } of waiting) if (refused) yield refused;
            return;
        }
        await pause(pauseMs, signal);
    }
}
