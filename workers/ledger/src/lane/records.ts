/** Records of a lane: reading them whole, moving them between states, and the one way out of the queue. */

import { nextPlace, placeText } from '../positions';
import type { Row } from '../sql';
import type { Step } from './row';

export const FINAL = ['done', 'failed', 'cancelled'];
const EVENTS = 10_000;
const TRIMMED_AT_ONCE = 100;

export interface RecordRow extends Row {
    id: string;
    life: string;
    status: string;
    place: number;
    created: number;
    updated: number;
    kind: string;
    fingerprint: string;
    more: string;
    payload: string | null;
    charged: string;
    size: number;
    outcome: string | null;
    hold_reason: string | null;
    hold: string | null;
    cancel_requested: number;
    directive: string | null;
    resigns: number;
    archived: number;
}

export interface Signed extends Row {
    nonce: string;
    hash: string;
    blob: ArrayBuffer;
}

export interface AttemptRow extends Signed {
    purpose: string;
    proof: string | null;
}

/** Attempt name to the proof, as JSON, that it can never land. */
export type Deaths = Record<string, string>;

export function isFinal(record: RecordRow): boolean {
    return FINAL.includes(record.status);
}

export function find({ sql }: Step, id: string, life: string): RecordRow | undefined {
    const record = sql.one<RecordRow>('SELECT * FROM records WHERE id = ?', id);
    return record?.life === life ? record : undefined;
}

export function attemptsOf({ sql }: Step, id: string): AttemptRow[] {
    return sql.all<AttemptRow>('SELECT nonce, hash, purpose, blob, proof FROM attempts WHERE id = ?', id);
}

export function nameOf(attempt: { nonce: string; hash: string }): string {
    return `${attempt.nonce}:${attempt.hash}`;
}

/** As a reader gets it; the caller puts attempts in order. `kept`: with the payload that waits for an archive. */
export function whole(step: Step, record: RecordRow, kept = false): object {
    const queued = isFinal(record)
        ? undefined
        : step.sql.one<{ payload: string }>('SELECT payload FROM queue WHERE place = ?', record.place);
    return {
        ...record,
        position: placeText(record.place),
        payload: isFinal(record) && !kept ? null : (record.payload ?? queued?.payload ?? null),
        attempts: attemptsOf(step, record.id).map(sent),
    };
}

export function sent(attempt: Signed): object {
    return { ...attempt, blob: toBase64(attempt.blob) };
}

export function toBase64(bytes: ArrayBuffer): string {
    let text = '';
    const view = new Uint8Array(bytes);
    for (let at = 0; at < view.length; at += 8192) text += String.fromCharCode(...view.subarray(at, at + 8192));
    return btoa(text);
}

export function fromBase64(text: string): ArrayBuffer {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}

/** Move a record on, with the lane's counters. */
export function become(step: Step, record: RecordRow, status: string): void {
    const { lane } = step;
    for (const [name, by] of [[record.status, -1], [status, 1]] as const) {
        if (name === 'queued') lane.queued += by;
        else if (FINAL.includes(name)) lane.unretired += by;
        else lane.unfinished += by;
    }
    record.status = status;
}

export function enqueue(step: Step, id: string, payload: string): number {
    const { sql, lane, now } = step;
    lane.last_id = nextPlace(lane.last_id, now);
    lane.depth += 1;
    sql.run('INSERT INTO queue (place, id, payload) VALUES (?, ?, ?)', lane.last_id, id, payload);
    return lane.last_id;
}

/** Take an entry out; answers the payload it had. */
export function dequeue({ sql, lane }: Step, at: number): string | undefined {
    const gone = sql.one<{ payload: string }>('DELETE FROM queue WHERE place = ? RETURNING payload', at);
    if (gone !== undefined) lane.depth -= 1;
    return gone?.payload;
}

export interface End {
    status: string;
    outcome: string;
    tx_hash: string | null;
    error: string | null;
}

/** Every end of an intent: outcome, out of the queue, room given back, event, in one step. */
export function finish(step: Step, record: RecordRow, end: End): void {
    const { sql, lane, now } = step;
    const payload = dequeue(step, record.place) ?? record.payload;
    giveBack(step, record);
    become(step, record, end.status);
    sql.run(
        `UPDATE records SET status = ?, outcome = ?, updated = ?, directive = NULL, payload = ?,
        charged = '', size = 0 WHERE id = ?`,
        ...[end.status, end.outcome, now, lane.archive === null ? null : payload, record.id],
    );
    event(step, record.id, end.status, end.tx_hash, end.error);
    step.ended(record.id);
}

function giveBack({ sql }: Step, record: RecordRow): void {
    if (record.charged === '') return;
    sql.run('UPDATE rooms SET count = count - 1, size = size - ? WHERE owner = ?', record.size, record.charged);
    sql.run('DELETE FROM rooms WHERE owner = ? AND count <= 0', record.charged);
}

export function event(step: Step, id: string, status: string, hash: string | null, error: string | null): void {
    const { sql, lane, now } = step;
    lane.last_event = nextPlace(lane.last_event, now);
    lane.events += 1;
    const query = 'INSERT INTO events (place, id, status, at, tx_hash, error) VALUES (?, ?, ?, ?, ?, ?)';
    sql.run(query, lane.last_event, id, status, now, hash, error);
    if (lane.events > EVENTS + TRIMMED_AT_ONCE) {
        lane.events -= TRIMMED_AT_ONCE;
        sql.run(
            `DELETE FROM events WHERE place IN (SELECT place FROM events ORDER BY place LIMIT ${TRIMMED_AT_ONCE})`,
        );
    }
}
