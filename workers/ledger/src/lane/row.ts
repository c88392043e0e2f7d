/** The one row of a lane: read at the start of a step, written back at its end, only what changed. */

import { Refusal } from '../object';
import { placeMs, placeText } from '../positions';
import type { Row, Sql } from '../sql';

export interface LaneRow extends Row {
    id: string;
    pool: string;
    weight: number;
    queue_limit: number;
    info: string;
    keyless: number;
    history_id: string;
    schema: number;
    revision: number;
    state: string;
    reason: string;
    cause: string;
    command: string;
    evidence: string;
    owner: string;
    token: string;
    left_token: string;
    epoch: number;
    lease_until: number;
    cursor: string | null;
    baseline: string | null;
    landed: string | null;
    signed_upto: number;
    last_id: number;
    last_event: number;
    events: number;
    depth: number;
    queued: number;
    unfinished: number;
    unretired: number;
    asks: number;
    asked: string;
    kept_bytes: number;
    kept_until: number;
    floor: string | null;
    turn: string;
    turn_until: number;
    turn_fence: number;
    tickets: number;
    checked: number;
    archive: number | null;
    lost: number;
    /** Keyless and idle: nobody serves it, and its numbers stand. */
    parked: number;
    /** When it was registered, or its last number was handed out. */
    used: number;
    resident: number;
    sends: number;
    send_ms: number;
    invalid_nonces: number;
}

export interface Fence {
    epoch: number;
    token: string;
}

/** One step on a lane: everything a step may use. */
export interface Step {
    sql: Sql;
    now: number;
    lane: LaneRow;
    /** The history that this store is in: an operator's restore of a backup begins another one. */
    found: string;
    /** Tell whoever listens that there is something to do, or that an intent ended. A hint, sent after the commit. */
    wake: () => void;
    ended: (id: string) => void;
}

export function readLane(sql: Sql): LaneRow | undefined {
    return sql.one<LaneRow>('SELECT * FROM lane');
}

export function writeLane(sql: Sql, before: LaneRow, after: LaneRow): void {
    const changed = Object.keys(after).filter((name) => before[name] !== after[name]);
    if (changed.length === 0) return;
    const values = changed.map((name) => after[name] ?? null);
    sql.run(`UPDATE lane SET ${changed.map((name) => `${name} = ?`).join(', ')}`, ...values);
}

export function checkFence({ lane }: Step, fence: Fence): void {
    if (lane.epoch !== fence.epoch || lane.token !== fence.token) {
        throw new Refusal('fenced', { owner: lane.owner, epoch: lane.epoch });
    }
}

export function checkHistory({ lane, found }: Step): void {
    if (lane.history_id !== found) throw new Refusal('rolled_back', { stored: lane.history_id, found });
}

export function refused(entry: string, why: string): Refusal {
    return new Refusal('refused', { entry, why });
}

export function view({ sql, now, lane, found }: Step): object {
    const oldest = sql.one<{ place: number }>('SELECT place FROM queue ORDER BY place LIMIT 1');
    return {
        ...lane,
        lease_ms: lane.token === '' ? 0 : Math.max(0, lane.lease_until - now),
        signed_upto: placeText(lane.signed_upto),
        last_id: placeText(lane.last_id),
        oldest_ms: oldest === undefined ? 0 : Math.max(0, now - placeMs(oldest.place)),
        found_history_id: found,
    };
}
