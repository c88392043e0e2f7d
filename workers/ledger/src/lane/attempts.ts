/** Write-ahead: signed bytes are durable before anybody sends them, all or nothing, and the cursor moves with them. */

import { place } from '../positions';
import { afterSigned, split, type Fenced } from './own';
import { attemptsOf, become, event, find, fromBase64, nameOf, type Deaths, type RecordRow } from './records';
import { checkFence, checkHistory, refused, type Step } from './row';

interface WriteAhead {
    id: string;
    life: string;
    position: string;
    nonce: string;
    hash: string;
    purpose: string;
    blob: string;
    deaths: Deaths;
    counted: boolean;
}

export function recordAttempts(step: Step, args: Fenced & { cursor: string; batch: WriteAhead[] }): string | null {
    const { lane } = step;
    const { batch, cursor } = args;
    checkFence(step, args.fence);
    if (batch.length > 0 && batch.every((write) => isRecorded(step, write))) return lane.cursor;
    checkHistory(step);
    const firsts = batch.filter((write) => isFirst(write.purpose));
    checkState(step, batch, firsts);
    const keyless = lane.keyless === 1;
    if (!keyless && lane.cursor !== cursor) {
        throw refused('cursor', `stands at ${lane.cursor ?? 'nothing'}, not at ${cursor}`);
    }
    const oldest = afterSigned(step, firsts.length);
    firsts.forEach((write, index) => {
        if (oldest[index]?.place !== place(write.position)) throw refused(write.id, 'not the oldest queued entries');
    });
    let top = BigInt(cursor);
    const seen = new Set<string>();
    for (const write of batch) {
        const record = find(step, write.id, write.life);
        if (record === undefined) throw refused(write.id, 'no such record');
        if (seen.has(write.id)) throw refused(write.id, 'is in the batch twice');
        seen.add(write.id);
        top = checkAttempt(step, write, record, top);
    }
    for (const write of batch) writeAttempt(step, write);
    if (!keyless) lane.cursor = top.toString();
    const last = firsts.at(-1);
    if (last !== undefined) lane.signed_upto = place(last.position);
    return lane.cursor;
}

function isFirst(purpose: string): boolean {
    return purpose === 'first' || purpose === 'given';
}

function isRecorded(step: Step, write: WriteAhead): boolean {
    if (find(step, write.id, write.life) === undefined) return false;
    return attemptsOf(step, write.id).some((attempt) => nameOf(attempt) === nameOf(write));
}

function checkState({ lane }: Step, batch: WriteAhead[], firsts: WriteAhead[]): void {
    for (const write of batch) {
        if ((write.purpose === 'given') !== (lane.keyless === 1)) {
            throw refused(write.id, `is ${write.purpose}, which this lane does not take`);
        }
    }
    if (lane.state === 'quarantined') throw refused(lane.id, 'the lane is quarantined');
    if (lane.state === 'paused' && firsts.length > 0) throw refused(lane.id, 'the lane is paused');
}

/** Check one attempt by its purpose; answers the cursor after it. */
function checkAttempt(step: Step, write: WriteAhead, record: RecordRow, top: bigint): bigint {
    const { status } = record;
    if (isFirst(write.purpose)) {
        if (status !== 'queued') throw refused(write.id, `is ${status}, not queued`);
    } else if (status !== 'inflight' && (status !== 'held' || write.purpose === 'replace')) {
        throw refused(write.id, `is ${status}, not inflight`);
    }
    if (status === 'held' && record.directive === null && record.cancel_requested === 0) {
        throw refused(write.id, 'is held, and nobody asked for an attempt');
    }
    const known = attemptsOf(step, write.id);
    const alive = known.filter((attempt) => attempt.proof === null && !(nameOf(attempt) in write.deaths));
    if (write.purpose === 'resign' && alive.length > 0) {
        throw refused(write.id, 'has an attempt that is not proven dead');
    }
    if (write.purpose === 'replace' && !alive.some((attempt) => attempt.nonce === write.nonce)) {
        throw refused(write.id, `has no live attempt at nonce ${write.nonce} to replace`);
    }
    if (write.purpose === 'given') return top; // whose number was reserved
    const shares = known.some((attempt) => attempt.nonce === write.nonce);
    if (shares && (write.purpose === 'replace' || write.purpose === 'noop')) return top;
    const nonce = BigInt(write.nonce);
    if (nonce < top) throw refused(write.id, `nonce ${write.nonce} is below the cursor`);
    return nonce + 1n;
}

function writeAttempt(step: Step, write: WriteAhead): void {
    const { sql, now } = step;
    const record = find(step, write.id, write.life);
    if (record === undefined) return;
    addProofs(step, write.id, write.deaths);
    sql.run(
        'INSERT OR REPLACE INTO attempts (id, nonce, hash, purpose, blob) VALUES (?, ?, ?, ?, ?)',
        ...[write.id, write.nonce, write.hash, write.purpose, fromBase64(write.blob)],
    );
    const resigns = record.resigns + (write.counted ? 1 : 0);
    if (write.purpose === 'noop') {
        sql.run('UPDATE records SET resigns = ?, updated = ? WHERE id = ?', resigns, now, write.id);
        return;
    }
    const before = record.status;
    become(step, record, 'inflight');
    sql.run(
        `UPDATE records SET status = 'inflight', hold = NULL, hold_reason = NULL, resigns = ?, updated = ? WHERE id = ?`,
        ...[resigns, now, write.id],
    );
    if (before !== 'inflight') event(step, write.id, 'inflight', write.hash, null);
}

/** A proof is about bytes that were recorded, never about those to come. */
export function addProofs({ sql }: Step, id: string, deaths: Deaths): void {
    for (const [name, proof] of Object.entries(deaths)) {
        const query = 'UPDATE attempts SET proof = ? WHERE id = ? AND nonce = ? AND hash = ?';
        sql.run(query, proof, id, ...split(name));
    }
}
