/** Ends: outcomes stored once, and final records on their way to their homes. */

import { nextPlace } from '../positions';
import { bringOut } from './accept';
import { addProofs } from './attempts';
import { forgetKept, type Fenced, higher } from './own';
import { attemptsOf, find, finish, isFinal, nameOf, whole, type Deaths, type End, type RecordRow } from './records';
import { checkFence, checkHistory, type Step } from './row';

const TOMBSTONE_MS = 180_000;
export const SHELVED_MS = 3_600_000;
const BREAKS_MS = 48 * SHELVED_MS;
const CLEANED_AT_ONCE = 1000;

/** What may come just before each end. */
const SOURCES: Readonly<Record<string, readonly string[]>> = {
    done: ['inflight', 'held'],
    failed: ['queued', 'inflight', 'held'],
    cancelled: ['queued', 'inflight', 'held'],
};

interface Settlement extends End {
    id: string;
    life: string;
    nonce: string | null;
    deaths: Deaths;
}

export function settle(step: Step, args: Fenced & { batch: Settlement[]; landed: string | null }): object[] {
    const { lane, now } = step;
    checkFence(step, args.fence);
    // an outcome seen on chain can be seen again; one that only we know must not rest on what was lost
    if (args.batch.some((item) => item.tx_hash === null)) checkHistory(step);
    const answers = args.batch.map((item) => {
        const record = find(step, item.id, item.life);
        if (record === undefined) return { word: 'gone' };
        const { status } = record;
        if (isFinal(record)) return { word: status === item.status ? 'already' : 'conflict', status };
        const legal = SOURCES[item.status]?.includes(status) ?? false;
        if (!legal) return { word: 'refused', status };
        if (!isProven(step, record, item)) return { word: 'refused', status };
        addProofs(step, record.id, item.deaths);
        finish(step, record, item);
        return { word: 'settled', status: item.status, at: now };
    });
    if (args.landed !== null) lane.landed = lane.landed === null ? args.landed : higher(lane.landed, args.landed);
    return answers;
}

/** `done` names the attempt that landed; any other end needs that too, or every effect proven dead. */
function isProven(step: Step, record: RecordRow, item: Settlement): boolean {
    const effects = attemptsOf(step, record.id).filter((attempt) => attempt.purpose !== 'noop');
    if (item.tx_hash !== null) {
        if (item.status === 'cancelled') return false;
        return effects.some((attempt) => attempt.nonce === item.nonce && attempt.hash === item.tx_hash);
    }
    if (item.status === 'done') return false;
    return effects.every((attempt) => attempt.proof !== null || nameOf(attempt) in item.deaths);
}

export function unretired(step: Step, { count }: { count: number }): object[] {
    const waiting = step.lane.archive !== null && late(step) <= 0;
    const query = `SELECT * FROM records WHERE status IN ('done', 'failed', 'cancelled') AND status <> 'queued'
        AND id NOT IN (SELECT id FROM shelf WHERE at > ?) AND archived >= ? LIMIT ?`;
    return step.sql
        .all<RecordRow>(query, step.now - SHELVED_MS, waiting ? 1 : 0, count)
        .map((record) => whole(step, record));
}

/** How many may go on without the archive, of those that it does not have: one that is away for long must not fill the disk. */
function late({ sql, lane }: Step): number {
    if (lane.archive === null || lane.unretired <= lane.archive) return 0; // mostly: nothing is counted
    const archived = sql.count('SELECT count(*) AS n FROM records WHERE archived = 1');
    return lane.unretired - archived - lane.archive;
}

/** Let final records wait for an archive, or no longer. */
export function archive({ sql, lane }: Step, { max_lag }: { max_lag: number | null }): null {
    lane.archive = max_lag;
    if (max_lag === null) {
        lane.lost = 0;
        sql.run('DELETE FROM backlog');
    }
    return null;
}

export function unarchived(step: Step, { count }: { count: number }): object[] {
    const query = `SELECT * FROM records WHERE status IN ('done', 'failed', 'cancelled') AND status <> 'queued'
        AND archived = 0 LIMIT ?`;
    return step.sql.all<RecordRow>(query, count).map((record) => whole(step, record, true));
}

/** An archive has these: they need no payload any more, and may be retired. Answers how many are new to us. */
export function acknowledge(step: Step, { records }: { records: { id: string; life: string }[] }): number {
    const { sql } = step;
    return records.filter(({ id, life }) => {
        if (sql.one('DELETE FROM backlog WHERE life = ? RETURNING life', life) !== undefined) return true;
        const record = find(step, id, life);
        if (record === undefined) return false;
        if (!isFinal(record)) return false;
        if (record.archived === 1) return false;
        sql.run('UPDATE records SET archived = 1, payload = NULL WHERE id = ?', id);
        return true;
    }).length;
}

export function backlog({ sql, lane }: Step, { count }: { count: number }): object {
    return { gone: sql.all('SELECT * FROM backlog ORDER BY at, life LIMIT ?', count), lost: lane.lost };
}

/** What its home forgot cannot be archived any more. */
function forgetGone({ sql, lane, now }: Step, keep_ms: number): void {
    lane.lost += sql.all('DELETE FROM backlog WHERE at < ? RETURNING life', now - keep_ms).length;
}

interface Buried {
    id: string;
    life: string;
    status: string;
}

/** Replace final records by tombstones, comparing life and final state; answers how many. */
export function bury(step: Step, { records, keep_ms }: { records: Buried[]; keep_ms: number }): number {
    const { sql, lane, now } = step;
    let buried = 0;
    let spare = late(step);
    for (const { id, life, status } of records) {
        const record = find(step, id, life);
        if (record === undefined) continue;
        if (record.status !== status) continue;
        if (lane.archive !== null && record.archived === 0) {
            if (spare <= 0) continue;
            spare -= 1;
            sql.run('INSERT OR REPLACE INTO backlog (life, id, at) VALUES (?, ?, ?)', life, id, now);
        }
        sql.run('DELETE FROM records WHERE id = ?', id);
        sql.run('DELETE FROM attempts WHERE id = ?', id);
        sql.run('DELETE FROM shelf WHERE id = ?', id);
        const query = 'INSERT OR REPLACE INTO tombstones (id, life, expires) VALUES (?, ?, ?)';
        sql.run(query, id, life, now + TOMBSTONE_MS);
        lane.unretired -= 1;
        buried += 1;
    }
    forgetGone(step, keep_ms);
    return buried;
}

export function shelve({ sql, now }: Step, { id, error }: { id: string; error: string }): null {
    sql.run('INSERT OR REPLACE INTO shelf (id, at, error) VALUES (?, ?, ?)', id, now, error);
    return null;
}

export function shelved({ sql }: Step): object {
    const rows = sql.all<{ id: string; error: string }>('SELECT id, error FROM shelf');
    return Object.fromEntries(rows.map((row) => [row.id, row.error]));
}

/** Delete what is over: a lane that nobody appends to any more must not keep it for ever. Answers whether more is. */
export function clean(step: Step, { keep_ms }: { keep_ms: number }): boolean {
    const { sql, lane, now } = step;
    bringOut(step, CLEANED_AT_ONCE);
    forgetGone(step, keep_ms);
    const old = sql.all<{ place: number }>(
        'SELECT place FROM events WHERE place < ? ORDER BY place LIMIT ?',
        ...[nextPlace(0, now - keep_ms), CLEANED_AT_ONCE],
    );
    const last = old.at(-1);
    if (last !== undefined) {
        sql.run('DELETE FROM events WHERE place <= ?', last.place);
        lane.events -= old.length;
    }
    sql.run('DELETE FROM breaks WHERE at < ?', now - BREAKS_MS);
    if (now >= lane.kept_until) forgetKept(step, 'at <= ?', now);
    const stones = sql.one('SELECT 1 AS n FROM tombstones WHERE expires <= ? LIMIT 1', now);
    return old.length === CLEANED_AT_ONCE || stones !== undefined;
}
