/** Server-sent events as an async iterator that goes on where a lost connection broke off. */
import { Limit, check, pause } from './clock.js';
import { TxManagerError, UnreachableError } from './errors.js';
import { backoffMs, type Patience } from './exchange.js';
import { decode } from './json.js';
import { isFinal, readEvent } from './records.js';
import { isWorthRetrying, refusal, retryAfterS } from './refusal.js';
import type { Outgoing, Transport } from './transport.js';
import type { IntentEvent } from './types.js';

/** The API sends a comment every 15 s; a stream that is silent longer than this is dead. */
const SILENCE_MS = 60_000;
const REMEMBERED = 64;

export interface Following {
    readonly path: string;
    readonly lastId: string | undefined;
    /** Whether the final event ends the stream. */
    readonly ends: boolean;
}

export async function* follow(transport: Transport, following: Following, patience: Patience): AsyncGenerator<IntentEvent, void, void> {
    const { signal } = patience;
    let { lastId } = following;
    let seen: string[] = [];
    let failingSince: number | undefined;
    for (let tries = 1; ; tries += 1) {
        let pauseMs = backoffMs(tries);
        try {
            const resumed = lastId === undefined ? {} : { 'last-event-id': lastId };
            const headers = { accept: 'text/event-stream', ...resumed };
            const reply = await open(transport, { method: 'GET', path: following.path, headers }, patience);
            if (reply.status === 204) return;
            if (reply.status !== 200) {
                const seconds = retryAfterS(reply.headers.get('retry-after'));
                pauseMs = Math.max(pauseMs, (seconds ?? 0) * 1000);
                throw refusal(reply.status, await reply.text(), seconds);
            }
            failingSince = undefined;
            tries = 0;
            for await (const block of pieces(reply, '\n\n', signal)) {
                const { id, data } = parse(block);
                lastId = id ?? lastId;
                if (data === undefined) continue;
                const event = readEvent(decode(data));
                // An event may come twice, with the same id.
                if (seen.includes(event.id)) continue;
                seen = [...seen.slice(1 - REMEMBERED), event.id];
                yield event;
                if (following.ends && isFinal(event.status)) return;
            }
        } catch (error) {
            check(signal);
            if (!isLost(error)) throw error;
            failingSince ??= performance.now();
            if (performance.now() - failingSince > patience.retryForMs)
                throw new UnreachableError('the stream could not be taken up again', error);
        }
        await pause(pauseMs, signal);
    }
}

/** The answer's head; its body is read under a limit of its own. */
export async function open(transport: Transport, request: Outgoing, patience: Patience): Promise<Response> {
    const limit = new Limit(patience.timeoutMs, patience.signal);
    try {
        return await transport.send(request, limit.signal);
    } finally {
        limit.end();
    }
}

interface Block {
    readonly id: string | undefined;
    readonly data: string | undefined;
}

/** What arrives, cut at each separator. */
export async function* pieces(reply: Response, separator: string, signal: AbortSignal | undefined): AsyncGenerator<string, void, void> {
    if (reply.body === null) return;
    const reader = reply.body.getReader();
    const decoder = new TextDecoder();
    let buffer = '';
    try {
        for (;;) {
            const chunk = await within(reader.read(), signal);
            if (chunk.done) return;
            const whole = (buffer + decoder.decode(chunk.value, { stream: true })).split(separator);
            buffer = whole.pop() ?? '';
            yield* whole;
        }
    } finally {
        // Closes the connection, also when the caller leaves its loop early.
        await reader.cancel().catch(() => undefined);
    }
}

function parse(block: string): Block {
    let id: string | undefined;
    const data: string[] = [];
    for (const line of block.split('\n')) {
        const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
        if (name === 'id') id = value;
        else if (name === 'data') data.push(value ?? '');
    }
    return { id, data: data.length ? data.join('\n') : undefined };
}

/** The next chunk; silence and the caller's signal end the wait. */
async function within<T>(reading: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const limit = new Limit(SILENCE_MS, signal);
    try {
        return await new Promise<T>((resolve, reject) => {
            limit.signal.addEventListener('abort', () => {
                reject(new Error('the stream was silent too long'));
            });
            reading.then(resolve, reject);
        });
    } finally {
        limit.end();
    }
}

/** Whether taking the stream up again may help. */
export function isLost(error: unknown): boolean {
    if (!(error instanceof TxManagerError)) return true;
    return error.status !== undefined && isWorthRetrying(error.status);
}
