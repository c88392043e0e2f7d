/**
 * Server-sent events of an intent or of a pool, with the ids of the Python API: whoever follows goes on at either of them by
 * `Last-Event-ID`. One request may ask the objects only so often, so a stream ends after a while and is taken up again.
 */

import { parse, stringify } from '../near/exact';
import { isObject } from '../near/fields';
import { Invalid } from '../near/invalid';
import { base64, fromBase64, utf8 } from '../near/bytes';
import { place, placeText } from '../positions';
import { markOf } from '../resident/blake2b';
import type { Accepting, Signing } from './accept';
import { instant, isFinal, type Stored } from './records';

const MOST_CALLS = 480;
const POLL_MS = 500;
const HEARTBEAT_MS = 15_000;
const PAGE = 500;

interface EventRow {
    position: string;
    id: string;
    status: string;
    at: number;
    tx_hash: string | null;
    error: string | null;
}

export class Streams {
    private calls = 0;

    constructor(
        private readonly accepting: Accepting,
        private readonly signing: Signing,
    ) {}

    /** What happened so far, and what follows, up to the end. */
    intent(record: Stored, lastId: string | null): Response {
        const after = lastId === null ? undefined : known(lastId);
        const end = place(`${record.updated}-0`);
        if (isFinal(record) && after !== undefined && place(after) >= end) return new Response(null, { status: 204 });
        return response(this.ofIntent(record, after ?? `${record.created - 1}-0`));
    }

    /** Everything in a pool from now on, or from the place that was reached. */
    pool(lanes: readonly string[], owner: string, lastId: string | null): Response {
        return response(this.ofPool(lanes, owner, lastId === null ? new Map<string, string>() : unpack(lastId, lanes)));
    }

    private async *ofIntent(record: Stored, after: string): AsyncGenerator<string, void> {
        yield 'retry: 2000\n\n';
        let [from, sent] = [after, after];
        let beat = Date.now();
        while (this.calls < MOST_CALLS) {
            const newest = (await this.accepting.read(record.id)) ?? record;
            this.calls += 3; // home and lane, and the wait below
            const rows = await this.events(record.lane, from);
            from = rows.at(-1)?.position ?? from;
            for (const row of rows.filter(({ id }) => id === record.id)) {
                sent = row.position;
                yield chunk(sent, record.lane, row);
                if (isFinal({ status: row.status })) return;
            }
            if (isFinal(newest)) {
                // the lane no longer has the events that led here: tell where the intent stands
                if (place(sent) < place(`${newest.updated}-0`)) yield chunk(`${newest.updated}-0`, record.lane, ended(newest));
                return;
            }
            if (rows.length > 0) beat = Date.now();
            else if (Date.now() - beat >= HEARTBEAT_MS) {
                yield ':\n\n';
                beat = Date.now();
            }
            await this.signing.settled(record.lane, record.id, POLL_MS);
        }
    }

    private async *ofPool(lanes: readonly string[], owner: string, places: Map<string, string>): AsyncGenerator<string, void> {
        for (const lane of lanes) {
            if (places.has(lane)) continue;
            const row = await this.accepting.step<{ last_event: number } | null>('lane', lane, 'lane', {});
            this.calls += 1;
            places.set(lane, placeText(row?.last_event ?? 0));
        }
        yield `retry: 2000\n\nid: ${pack(places)}\n\n`;
        let beat = Date.now();
        while (this.calls < MOST_CALLS) {
            const shown: [string, EventRow][] = [];
            for (const lane of lanes) {
                const rows = await this.events(lane, places.get(lane) ?? '0-0');
                const last = rows.at(-1);
                if (last !== undefined) places.set(lane, last.position);
                shown.push(...rows.filter(({ id }) => id.startsWith(owner)).map((row): [string, EventRow] => [lane, row]));
            }
            // one id per page: only behind the whole page is every lane's place known
            if (shown.length > 0) yield shown.map(([lane, row], at) => chunk(at === shown.length - 1 ? pack(places) : '', lane, row)).join('');
            if (shown.length > 0) beat = Date.now();
            else if (Date.now() - beat >= HEARTBEAT_MS) {
                yield ':\n\n';
                beat = Date.now();
            }
            await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        }
    }

    /** All of them after this place: a lane keeps a few thousand. */
    private async events(lane: string, after: string): Promise<EventRow[]> {
        const found: EventRow[] = [];
        for (;;) {
            const rows = await this.accepting.step<EventRow[]>('lane', lane, 'events', { after: found.at(-1)?.position ?? after, count: PAGE });
            this.calls += 1;
            found.push(...rows);
            if (rows.length < PAGE) return found;
        }
    }
}

/** An error ends the stream: whoever follows takes it up where it broke. */
function response(chunks: AsyncGenerator<string, void>): Response {
    const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
            const next = await chunks.next().catch(() => ({ done: true as const, value: undefined }));
            if (next.done === true) controller.close();
            else controller.enqueue(utf8(next.value));
        },
        async cancel() {
            await chunks.return();
        },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } });
}

function chunk(id: string, lane: string, { position, id: intent, status, at, tx_hash: hash, error }: EventRow): string {
    const [, pool = '', ...key] = intent.split('/');
    const told = {
        id: `${markOf(lane)}-${position}`,
        idempotency_key: key.join('/'),
        lane,
        pool,
        status,
        at: instant(at),
        ...(hash === null ? {} : { tx_hash: hash }),
        ...(error === null ? {} : { error }),
    };
    return `${id === '' ? '' : `id: ${id}\n`}event: intent\ndata: ${stringify(told)}\n\n`;
}

function ended({ id, status, updated, outcome }: Stored): EventRow {
    const [hash, error] = [outcome?.['tx_hash'], outcome?.['error']];
    const code = isObject(error) ? error['code'] : undefined;
    return {
        ...{ position: `${updated}-0`, id, status, at: updated },
        tx_hash: typeof hash === 'string' ? hash : null,
        error: typeof code === 'string' ? code : null,
    };
}

function known(position: string): string {
    if (place(position) < 0) throw strange();
    return position;
}

function strange(): Invalid {
    return new Invalid('Last-Event-ID', 'is not an id of this stream; send back the last one as it was, or none');
}

function pack(places: ReadonlyMap<string, string>): string {
    const marks = Object.fromEntries([...places].map(([lane, at]) => [markOf(lane), at]));
    return base64(utf8(stringify(marks))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function unpack(text: string, lanes: readonly string[]): Map<string, string> {
    const padded = text.replaceAll('-', '+').replaceAll('_', '/').padEnd(Math.ceil(text.length / 4) * 4, '=');
    const bytes = fromBase64(padded);
    let marks;
    try {
        marks = parse(new TextDecoder().decode(bytes));
    } catch {
        throw strange();
    }
    if (!isObject(marks)) throw strange();
    const found = new Map<string, string>();
    for (const lane of lanes) {
        const at = marks[markOf(lane)];
        if (at === undefined) continue;
        if (typeof at !== 'string') throw strange();
        found.set(lane, known(at));
    }
    return found;
}
