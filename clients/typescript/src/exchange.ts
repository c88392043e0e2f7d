/**
 * One request, repeated while that is safe and useful. The request never changes between tries, its idempotency key
 * least of all. Repeated are network errors, 408, 429, 502, 503 and 504, with jitter and Retry-After; nothing else.
 */
import { Limit, check, pause } from './clock.js';
import { BadAnswerError, TxManagerError, UnreachableError } from './errors.js';
import { decode } from './json.js';
import { isWorthRetrying, refusal, retryAfterS } from './refusal.js';
import type { Outgoing, Transport } from './transport.js';

export interface Patience {
    /** How long the call is repeated. */
    readonly retryForMs: number;
    /** How long one try may take. */
    readonly timeoutMs: number;
    readonly signal: AbortSignal | undefined;
}

export interface Answer {
    readonly told: unknown;
    readonly replayed: boolean;
}

export async function exchange(transport: Transport, request: Outgoing, patience: Patience): Promise<Answer> {
    const { signal } = patience;
    const until = performance.now() + patience.retryForMs;
    for (let tries = 1; ; tries += 1) {
        let pauseMs = backoffMs(tries);
        const limit = new Limit(patience.timeoutMs, signal);
        try {
            const reply = await transport.send(request, limit.signal);
            const body = await reply.text();
            if (reply.status >= 200 && reply.status < 300)
                return { told: decode(body), replayed: reply.headers.get('idempotency-replayed') === 'true' };
            if (reply.status < 400) throw new BadAnswerError(`status ${reply.status}: the API does not redirect`);
            const seconds = retryAfterS(reply.headers.get('retry-after'));
            pauseMs = Math.max(pauseMs, (seconds ?? 0) * 1000);
            if (!isWorthRetrying(reply.status) || performance.now() + pauseMs > until) throw refusal(reply.status, body, seconds);
        } catch (error) {
            // What the API answered, rather than that no answer came. Foreign errors may have `retryable`, too: workerd's do.
            if (error instanceof TxManagerError) throw error;
            check(signal);
            if (performance.now() + pauseMs > until)
                throw new UnreachableError(`no answer after ${tries} tries; the same call may be made again`, error);
        } finally {
            limit.end();
        }
        await pause(pauseMs, signal);
    }
}

/** 50 ms, doubled with each try up to 5 s, less a random half: callers that failed together return apart. */
export function backoffMs(tries: number): number {
    return Math.min(5000, 50 * 2 ** Math.min(tries - 1, 10)) * (0.5 + Math.random() / 2);
}
