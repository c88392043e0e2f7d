/** Owning a lane: the lease, and what its owner is handed. Every step but `lease` compares the fence. */

import { Refusal } from '../object';
import { nextPlace, place, placeMs, placeText } from '../positions';
import type { Row } from '../sql';
import {
    event,
    find,
    fromBase64,
    nameOf,
    become,
    dequeue,
    sent,
    whole,
    type RecordRow,
    type Signed,
} from './records';
import { expire, obstacle } from './numbers';
import { checkFence, checkHistory, refused, view, type Fence, type Step } from './row';

const SCHEMA = 1;
export const RESIDENT = 'resident';

export interface Fenced {
    fence: Fence;
}

export function lease(step: Step, args: { owner: string; token: string; lease_ms: number }): object {
    const { lane, now } = step;
    if (lane.state === 'closed') return { word: 'closed' };
    if (lane.parked === 1) return { word: 'unknown' };
    if (lane.schema > SCHEMA) return { word: 'schema' };
    if (lane.resident === 1) return { word: 'held', owner: RESIDENT, left_ms: args.lease_ms };
    if (args.token !== lane.token) {
        if (lane.token !== '' && lane.lease_until > now) {
            return { word: 'held', owner: lane.owner, left_ms: lane.lease_until - now };
        }
        lane.epoch += 1;
        lane.owner = args.owner;
        lane.token = args.token;
    }
    lane.lease_until = now + args.lease_ms;
    return { word: 'leased', owner: lane.owner, epoch: lane.epoch, lane: view(step) };
}

export function renew(step: Step, { fence, lease_ms }: Fenced & { lease_ms: number }): object {
    const { lane, now, found } = step;
    checkFence(step, fence);
    lane.lease_until = now + lease_ms;
    const moved = lane.history_id !== found;
    return { depth: lane.depth, state: lane.state, asks: lane.asks, moved, owner: lane.owner, epoch: lane.epoch };
}

export function release({ lane }: Step, { fence }: Fenced): boolean {
    if (lane.epoch !== fence.epoch || lane.token !== fence.token) {
        // whose reply was lost asks again: it did release the lane
        return lane.epoch === fence.epoch && lane.left_token === fence.token;
    }
    lane.left_token = lane.token;
    lane.token = '';
    lane.owner = '';
    lane.lease_until = 0;
    return true;
}

/** Hand back a keyless lane that nobody uses, and let nobody serve it. `left`: the time after which it may be idle. */
export function park(step: Step, { fence, idle_ms }: Fenced & { idle_ms: number }): object {
    const { sql, lane, now } = step;
    const again = lane.parked === 1 && lane.epoch === fence.epoch && lane.left_token === fence.token;
    if (again) return { left: 0, lane: view(step) };
    checkFence(step, fence);
    expire(step);
    const busy = sql.one('SELECT 1 AS n FROM held') !== undefined || obstacle(step) !== '';
    if (busy || lane.keyless !== 1 || lane.state !== 'active') return { left: Math.max(1, idle_ms) };
    const told = sql.one<{ place: number | null }>('SELECT max(place) AS place FROM events')?.place ?? 0;
    const left = Math.max(lane.used, placeMs(lane.last_id), placeMs(told)) + idle_ms - now;
    if (left > 0) return { left };
    lane.parked = 1;
    lane.signed_upto = 0;
    lane.last_id = 0;
    lane.revision += 1;
    release(step, { fence });
    return { left: 0, lane: view(step) };
}

export function baseline(step: Step, args: Fenced & { cursor: string; operator: boolean }): string {
    const { lane } = step;
    checkFence(step, args.fence);
    if (lane.cursor === null) {
        lane.cursor = args.cursor;
        lane.baseline = args.cursor;
    } else if (args.operator) {
        lane.cursor = higher(lane.cursor, args.cursor);
        lane.baseline = higher(lane.baseline ?? '0', args.cursor);
    }
    return lane.cursor;
}

export function higher(one: string, other: string): string {
    return BigInt(one) > BigInt(other) ? one : other;
}

/** Accept a changed history after the worker decided that nothing was lost. */
export function vouch(step: Step, args: Fenced & { stored: string; found: string }): boolean {
    const { lane } = step;
    checkFence(step, args.fence);
    if (lane.history_id === args.stored) lane.history_id = args.found;
    return lane.history_id === args.found;
}

interface Queued extends Row {
    place: number;
    id: string;
}

/** The oldest entries that got no first attempt yet. */
export function afterSigned({ sql, lane }: Step, count: number): Queued[] {
    const query = 'SELECT place, id FROM queue WHERE place > ? ORDER BY place LIMIT ?';
    return sql.all<Queued>(query, lane.signed_upto, count);
}

export function take(step: Step, { fence, count }: Fenced & { count: number }): object[] {
    const { sql, lane } = step;
    checkFence(step, fence);
    if (lane.state !== 'active' && lane.state !== 'draining') return [];
    const query = `SELECT queue.place, queue.id, queue.payload, life, kind, fingerprint, more
        FROM queue JOIN records ON records.id = queue.id WHERE queue.place > ? ORDER BY queue.place LIMIT ?`;
    return sql
        .all<RecordRow>(query, lane.signed_upto, count)
        .map((row) => ({ ...row, position: placeText(row.place), at: placeMs(row.place) }));
}

export function unfinished(step: Step, { fence }: Fenced): object[] {
    checkFence(step, fence);
    return pending(step);
}

/** Records that have attempts and no end; the caller puts them in order. */
export function pending(step: Step): object[] {
    return step.sql
        .all<RecordRow>(
            `SELECT * FROM records WHERE status IN ('inflight', 'held') AND status <> 'queued'
            AND EXISTS (SELECT 1 FROM attempts WHERE attempts.id = records.id)`,
        )
        .map((record) => whole(step, record));
}

export interface Filling {
    nonce: string;
    hash: string;
    purpose: string;
    blob: string;
}

interface Filled extends Filling {
    id: string;
    life: string;
    kind: string;
    status: string;
    outcome: string;
}

/** What it took left the lane: an archive counts it, once. */
function endFill({ sql, lane, now }: Step, { id, life, kind, status, outcome, nonce, hash, purpose, blob }: Filled): void {
    if (lane.archive === null) return;
    if (sql.one('SELECT 1 AS n FROM fills WHERE nonce = ? AND hash = ?', nonce, hash) === undefined) return;
    const query = `INSERT INTO records (id, life, status, place, created, updated, kind, fingerprint, more, payload, charged, size, outcome)
        VALUES (?, ?, ?, ?, ?, ?, ?, '', '', '{}', '', 0, ?)`;
    sql.run(query, id, life, status, nextPlace(0, now), now, now, kind, outcome);
    const signed = 'INSERT INTO attempts (id, nonce, hash, purpose, blob) VALUES (?, ?, ?, ?, ?)';
    sql.run(signed, id, nonce, hash, purpose, fromBase64(blob));
    lane.unretired += 1;
}

/** No-ops for nonces below the cursor that belong to no intent, written ahead; those that are over are forgotten. */
export function fill(step: Step, args: Fenced & { attempts: Filling[]; done: string[]; landed?: Filled[] }): object[] {
    const { sql, lane } = step;
    checkFence(step, args.fence);
    const known = new Set(fills(step).map(nameOf));
    const fresh = args.attempts.filter((attempt) => !known.has(nameOf(attempt)));
    if (fresh.length > 0) checkHistory(step);
    if (fresh.length > 0 && lane.state === 'quarantined') throw refused(lane.id, 'the lane is quarantined');
    for (const attempt of fresh) {
        if (lane.cursor === null || BigInt(attempt.nonce) >= BigInt(lane.cursor)) {
            throw refused(nameOf(attempt), 'is not below the cursor');
        }
    }
    for (const one of args.landed ?? []) endFill(step, one);
    for (const name of args.done) {
        const [nonce, hash] = split(name);
        sql.run('DELETE FROM fills WHERE nonce = ? AND hash = ?', nonce, hash);
    }
    for (const { nonce, hash, purpose, blob } of fresh) {
        const query = 'INSERT INTO fills (nonce, hash, purpose, blob) VALUES (?, ?, ?, ?)';
        sql.run(query, nonce, hash, purpose, fromBase64(blob));
    }
    return fills(step).map(sent);
}

function fills({ sql }: Step): Signed[] {
    return sql.all<Signed>('SELECT nonce, hash, purpose, blob FROM fills');
}

export function split(name: string): [string, string] {
    const at = name.indexOf(':');
    return [name.slice(0, at), name.slice(at + 1)];
}

interface Landed {
    nonce: string;
    hash: string;
    intent: string;
    blob: string;
}

/** Keep what is final for a while, so that it can be sent again after a rollback past finality. */
export function keep(step: Step, args: Fenced & { landed: Landed[]; keep_ms: number; most_bytes: number }): null {
    const { sql, lane, now } = step;
    checkFence(step, args.fence);
    const before = now < lane.kept_until ? now - args.keep_ms : now + 1;
    forgetKept(step, 'at < ?', before);
    for (const one of args.landed) {
        const blob = fromBase64(one.blob);
        lane.kept_bytes += blob.byteLength;
        const query = 'INSERT INTO kept (at, nonce, hash, intent, blob) VALUES (?, ?, ?, ?, ?)';
        sql.run(query, now, one.nonce, one.hash, one.intent, blob);
    }
    lane.kept_until = now + args.keep_ms;
    while (lane.kept_bytes > args.most_bytes) {
        const oldest = sql.one<{ number: number }>('SELECT number FROM kept ORDER BY number LIMIT 1');
        if (oldest === undefined) break;
        forgetKept(step, 'number = ?', oldest.number);
    }
    return null;
}

export function forgetKept({ sql, lane }: Step, which: string, value: number): void {
    lane.kept_bytes -= sql.count(`SELECT coalesce(sum(length(blob)), 0) AS n FROM kept WHERE ${which}`, value);
    sql.run(`DELETE FROM kept WHERE ${which}`, value);
}

/** What is kept; the caller drops repeats and puts it in order. */
export function kept({ sql, lane, now }: Step): object[] {
    if (now >= lane.kept_until) return [];
    return sql.all<Signed>('SELECT nonce, hash, intent, blob FROM kept ORDER BY number').map(sent);
}

interface Hold extends Fenced {
    id: string;
    reason: string;
    hold: string;
}

export function hold(step: Step, args: Hold & { life: string }): boolean {
    checkFence(step, args.fence);
    const record = find(step, args.id, args.life);
    if (record === undefined) return false;
    if (record.status === 'held') return true;
    if (record.status !== 'inflight') return false;
    held(step, record, args, null);
    return true;
}

/** Hold a queued intent of which nothing was signed, and take the entry out of the queue. */
export function setAside(step: Step, args: Hold & { position: string }): boolean {
    checkFence(step, args.fence);
    const record = step.sql.one<RecordRow>('SELECT * FROM records WHERE id = ?', args.id);
    const own = record?.place === place(args.position);
    if (own && record.status === 'held') return true;
    if (own && record.status !== 'queued') return false;
    const payload = dequeue(step, place(args.position));
    if (!own) return false;
    held(step, record, args, payload ?? '{}');
    return true;
}

function held(step: Step, record: RecordRow, { reason, hold }: Hold, payload: string | null): void {
    become(step, record, 'held');
    step.sql.run(
        `UPDATE records SET status = 'held', hold_reason = ?, hold = ?, payload = ?, updated = ? WHERE id = ?`,
        ...[reason, hold, payload, step.now, record.id],
    );
    event(step, record.id, 'held', null, reason);
}

/** Count that an intent broke its owner; the same mark counts once. */
export function broke(
    step: Step,
    args: Fenced & { what: string; mark: string; error: string; forget_ms: number },
): number {
    const { sql, now } = step;
    checkFence(step, args.fence);
    const last = sql.one<{ count: number; mark: string; at: number }>('SELECT * FROM breaks WHERE what = ?', args.what);
    if (last?.mark === args.mark) return last.count;
    const count = last !== undefined && now - last.at < args.forget_ms ? last.count + 1 : 1;
    const query = 'INSERT OR REPLACE INTO breaks (what, count, mark, at, error) VALUES (?, ?, ?, ?, ?)';
    sql.run(query, args.what, count, args.mark, now, args.error);
    return count;
}

/** Clear the operator's word on a record once it was carried out. */
export function answer(step: Step, { fence, id, life }: Fenced & { id: string; life: string }): boolean {
    checkFence(step, fence);
    if (find(step, id, life) === undefined) return false;
    step.sql.run('UPDATE records SET directive = NULL WHERE id = ?', id);
    return true;
}

export function unowned(): Refusal {
    return new Refusal('fenced', { owner: '', epoch: 0 });
}
