/** Accepting: append, and what callers and operators may ask of a record. */

import { placeMs, placeText } from '../positions';
import { bind, taken, type Use } from './numbers';
import { attemptsOf, become, enqueue, event, find, finish, isFinal, type RecordRow } from './records';
import { checkHistory, type Step } from './row';

const APPEND_WITHIN_MS = 60_000;
const CLEANED_AT_ONCE = 100;

interface Charge {
    owner: string;
    size: number;
    most: number | null;
    most_bytes: number | null;
}

interface Entry {
    id: string;
    life: string;
    born: number;
    kind: string;
    fingerprint: string;
    more: string;
    payload: string;
    use: Use | null;
    charge: Charge | null;
}

interface Room extends Record<string, number> {
    count: number;
    size: number;
}

export function append(step: Step, { entries }: { entries: Entry[] }): object[] {
    bringOut(step);
    const answers = entries.map((entry) => appendOne(step, entry));
    step.wake();
    return answers;
}

function appendOne(step: Step, entry: Entry): object {
    const { sql, lane, now } = step;
    const stone = sql.one<{ life: string; expires: number }>('SELECT * FROM tombstones WHERE id = ?', entry.id);
    if (stone !== undefined && stone.expires > now && stone.life === entry.life) return { word: 'retired' };
    const record = sql.one<RecordRow>('SELECT * FROM records WHERE id = ?', entry.id);
    if (record !== undefined) {
        if (record.life !== entry.life) return { word: 'other_life' };
        return { word: 'exists', ...where(step, record.place, record.status), at: record.created };
    }
    if (entry.born < now - APPEND_WITHIN_MS) return { word: 'stale' };
    if (entry.born > now + APPEND_WITHIN_MS) return { word: 'ahead' };
    if (lane.state === 'closed' || lane.parked === 1) return { word: 'closed' };
    if (lane.depth >= lane.queue_limit) return { word: 'full', depth: lane.depth };
    const why = taken(step, entry.use);
    if (why !== null) return { word: why, cursor: lane.cursor };
    if (entry.charge !== null) {
        const used = roomOf(step, entry.charge.owner);
        if (isFull(entry.charge, used)) return { word: 'no_room', room: used };
        takeRoom(step, entry.charge);
    }
    sql.run('DELETE FROM tombstones WHERE id = ?', entry.id);
    const place = enqueue(step, entry.id, entry.payload);
    const at = placeMs(place);
    lane.queued += 1;
    sql.run(
        `INSERT INTO records (id, life, status, place, created, updated, kind, fingerprint, more, charged, size)
        VALUES (?, ?, 'queued', ?, ?, ?, ?, ?, ?, ?, ?)`,
        ...[entry.id, entry.life, place, at, at, entry.kind, entry.fingerprint, entry.more],
        ...[entry.charge?.owner ?? '', entry.charge?.size ?? 0],
    );
    event(step, entry.id, 'queued', null, null);
    if (entry.use !== null) bind(step, entry.use, entry.id);
    return { word: 'appended', ...where(step, place, 'queued'), at };
}

function where({ lane }: Step, place: number, status: string): object {
    return { position: placeText(place), status, depth: lane.depth };
}

export function roomOf({ sql }: Step, owner: string): Room {
    return sql.one<Room>('SELECT count, size FROM rooms WHERE owner = ?', owner) ?? { count: 0, size: 0 };
}

function isFull(charge: Charge, used: Room): boolean {
    if (charge.most !== null && used.count >= charge.most) return true;
    return charge.most_bytes !== null && used.size + charge.size > charge.most_bytes;
}

function takeRoom({ sql }: Step, charge: Charge): void {
    const query = `INSERT INTO rooms (owner, count, size) VALUES (?, 1, ?)
        ON CONFLICT (owner) DO UPDATE SET count = count + 1, size = size + excluded.size`;
    sql.run(query, charge.owner, charge.size);
}

/** Tombstones whose time is over leave with later appends. */
export function bringOut({ sql, now }: Step, most = CLEANED_AT_ONCE): void {
    sql.run(
        `DELETE FROM tombstones WHERE id IN
        (SELECT id FROM tombstones WHERE expires <= ? ORDER BY expires LIMIT ?)`,
        ...[now, most],
    );
}

/** Whether it was there to be cancelled; a final or retired one is not. */
export function cancel(step: Step, { id, life, outcome }: { id: string; life: string; outcome: string }): boolean {
    const { sql, lane, now } = step;
    const record = find(step, id, life);
    if (record === undefined) return false;
    if (isFinal(record)) return false;
    const unsigned = attemptsOf(step, id).length === 0;
    if (unsigned) checkHistory(step); // it may have been signed, and the store forgot it
    if (unsigned) {
        finish(step, record, { status: 'cancelled', outcome, tx_hash: null, error: null });
        step.wake();
    } else if (record.cancel_requested === 0) {
        lane.asks += 1;
        sql.run('UPDATE records SET cancel_requested = 1, updated = ? WHERE id = ?', now, id);
        step.wake();
    }
    return true;
}

/** Leave an operator's word on a held intent for the lane's owner. */
export function resolve(step: Step, { id, life, directive }: { id: string; life: string; directive: string }): boolean {
    const { sql, lane, now } = step;
    const record = find(step, id, life);
    if (record === undefined) return false;
    if (record.status !== 'held') return false;
    if (attemptsOf(step, id).length === 0) return false;
    if (record.directive !== directive) lane.asks += 1;
    sql.run('UPDATE records SET directive = ?, updated = ? WHERE id = ?', directive, now, id);
    step.wake();
    return true;
}

/** Another seal for what is held for its seal: to the end of the queue, or in flight if something was signed. */
export function reseal(step: Step, args: { id: string; life: string; more: string; reason: string }): boolean {
    const { sql, lane, now } = step;
    const record = find(step, args.id, args.life);
    if (record === undefined) return false;
    if (record.status !== 'held') return false;
    if (record.hold_reason !== args.reason) return false;
    const status = attemptsOf(step, record.id).length > 0 ? 'inflight' : 'queued';
    if (status === 'queued') record.place = enqueue(step, record.id, record.payload ?? '{}');
    lane.asks += 1;
    become(step, record, status);
    sql.run(
        `UPDATE records SET status = ?, place = ?, hold = NULL, hold_reason = NULL, more = ?, updated = ?,
        payload = NULL WHERE id = ?`,
        ...[status, record.place, args.more, now, record.id],
    );
    event(step, record.id, status, null, null);
    step.wake();
    return true;
}
