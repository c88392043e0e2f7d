/** A lane as everybody sees it: registered, stopped, read, and in the end forgotten. */

import { Refusal } from '../object';
import { place, placeMs, placeText } from '../positions';
import { expire, obstacle } from './numbers';
import { find, whole, type RecordRow } from './records';
import { checkFence, view, type Fence, type Step } from './row';
import type { Row, Sql } from '../sql';

const SCHEMA = 1;
const MAX_MS = 8_000_000_000_000;

/** Where each state may come from. */
const SOURCES: Readonly<Record<string, readonly string[]>> = {
    active: ['draining', 'paused', 'quarantined'],
    draining: ['active', 'paused', 'quarantined'],
    paused: ['active', 'draining', 'quarantined'],
    quarantined: ['active', 'draining', 'paused'],
    closed: ['draining'],
};

export interface Spec {
    id: string;
    pool: string;
    weight: number;
    queue_limit: number;
    info: string;
    keyless: boolean;
    /** Whether the lane object owns itself; only it may say so. */
    resident?: boolean;
}

export function create(sql: Sql, spec: Spec, history: string): void {
    sql.run(
        `INSERT INTO lane (one, id, pool, weight, queue_limit, info, keyless, history_id, schema, resident)
        VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[spec.id, spec.pool, spec.weight, spec.queue_limit, spec.info, spec.keyless ? 1 : 0, history, SCHEMA],
        spec.resident === true ? 1 : 0,
    );
}

/** Publish a lane, or refresh what is published. */
export function register(step: Step, spec: Spec): object {
    const { lane } = step;
    if (lane.state === 'closed') throw new Refusal('closed');
    if ((lane.keyless === 1) !== spec.keyless) throw new Refusal('other_sort');
    if ((lane.resident === 1) !== (spec.resident === true)) throw new Refusal('other_sort');
    lane.pool = spec.pool;
    lane.weight = spec.weight;
    lane.queue_limit = spec.queue_limit;
    lane.info = spec.info;
    lane.parked = 0;
    lane.used = step.now;
    // above all that the registry may still have of a lane that was deleted
    lane.revision = Math.max(lane.revision + 1, step.now * 1000);
    return view(step);
}

interface Stop {
    state: string;
    reason: string;
    cause: string;
    command: string;
    evidence: string;
    fence: Fence | null;
    /** As the caller read them: refused when something else was asked of the lane since. An older client sends none. */
    asks?: number | null;
}

export function setLane(step: Step, { fence, asks = null, ...told }: Stop): object {
    const { lane } = step;
    if (fence !== null) checkFence(step, fence);
    if (lane.state !== told.state) {
        if (!(SOURCES[told.state]?.includes(lane.state) ?? false)) throw new Refusal('not_from', { state: lane.state });
        const left = lane.queued + lane.unfinished + lane.unretired;
        if (told.state === 'closed' && left > 0) throw new Refusal('busy', { left });
    }
    const names = ['state', 'reason', 'cause', 'command', 'evidence'] as const;
    if (lane.parked === 1 || names.some((name) => lane[name] !== told[name])) {
        if (asks !== null && asks !== lane.asks) throw new Refusal('outdated');
        lane.asks += 1;
        lane.revision += 1;
        for (const name of names) lane[name] = told[name];
        lane.parked = 0;
    }
    step.wake();
    return view(step);
}

/** Ask the lane's owner to compare with the chain; once for each request. */
export function check(step: Step, { asked }: { asked: string }): boolean {
    if (step.lane.asked !== asked) step.lane.asks += 1;
    step.lane.asked = asked;
    step.wake();
    return true;
}

export function record(step: Step, { id, life }: { id: string; life: string }): object | null {
    const found = find(step, id, life);
    return found === undefined ? null : whole(step, found);
}

type Mark = [ms: number, life: string];

/**
 * The newest records that are older than the mark, and one more if there is one. The queue tells the order of what is in
 * it, whole milliseconds at a time; what left it, set aside or final, is found by its status.
 */
export function browse(step: Step, { before, count }: { before: Mark | null; count: number }): object[] {
    const { sql } = step;
    const [ms, life] = before ?? [MAX_MS, ''];
    const upper = (ms + 1) * 1000;
    const same = sql.count('SELECT count(*) AS n FROM queue WHERE place >= ? AND place < ?', ms * 1000, upper);
    const page = 'SELECT place FROM queue WHERE place < ? ORDER BY place DESC LIMIT 1 OFFSET ?';
    const cut = sql.one<{ place: number }>(page, upper, count + same);
    const from = cut === undefined ? 0 : placeMs(cut.place) * 1000;
    const query = `SELECT * FROM (
            SELECT records.* FROM queue JOIN records ON records.id = queue.id AND records.place = queue.place
            WHERE queue.place >= ?1 AND queue.place < ?2
            UNION ALL
            SELECT * FROM records WHERE status <> 'queued' AND place >= ?1 AND place < ?2
            AND (status IN ('done', 'failed', 'cancelled') OR (status = 'held' AND payload IS NOT NULL))
        ) WHERE (place / 1000, life) < (?3, ?4) ORDER BY place / 1000 DESC, life DESC LIMIT ?5`;
    return sql.all<RecordRow>(query, from, upper, ms, life, count + 1).map((found) => whole(step, found, true));
}

interface EventRow extends Row {
    place: number;
}

export function events({ sql }: Step, { after, count }: { after: string; count: number }): object[] {
    const query = 'SELECT * FROM events WHERE place > ? ORDER BY place LIMIT ?';
    return sql.all<EventRow>(query, place(after), count).map((row) => ({ ...row, position: placeText(row.place) }));
}

const FORGOTTEN = ['lane', 'queue', 'records', 'attempts', 'tombstones', 'events', 'rooms', 'fills', 'kept', 'breaks', 'backlog'];

/** Delete a keyless lane that nothing depends on any more; the caller puts the obstacle into words. */
export function forget(step: Step): object {
    const { sql, lane } = step;
    expire(step);
    const why = obstacle(step);
    const told = { keyless: lane.keyless === 1, state: lane.state, obstacle: why };
    if (why !== '' || lane.keyless !== 1 || lane.state === 'closed') return told;
    for (const table of [...FORGOTTEN, 'shelf', 'held', 'reuse']) sql.run(`DELETE FROM ${table}`);
    return told;
}
