/** What the store hands to the loop, and what it keeps: the same texts that the Python stack writes and reads. */

import { base64, utf8, join, type Bytes } from '../near/bytes';
import { parse, stringify, type Json, type JsonObject } from '../near/exact';
import { isObject } from '../near/fields';
import type { Outcome } from '../near/judge';
import { homeOf } from './router';
import type { Attempt } from './nodes';
import type { Sealed } from './seal';

const HOME_OBJECTS = 16;

export interface LaneView {
    state: string;
    cause: string;
    command: string;
    cursor: string | null;
    baseline: string | null;
    landed: string | null;
    history_id: string;
    found_history_id: string;
    unretired: number;
}

interface AttemptRow {
    nonce: string;
    hash: string;
    purpose: string;
    blob: string;
    proof: string | null;
}

export interface RecordRow {
    id: string;
    life: string;
    status: string;
    position: string;
    created: number;
    updated: number;
    kind: string;
    fingerprint: string;
    more: string;
    payload: string | null;
    outcome: string | null;
    hold: string | null;
    cancel_requested: number;
    directive: string | null;
    resigns: number;
    attempts: AttemptRow[];
}

export interface EntryRow {
    id: string;
    life: string;
    kind: string;
    fingerprint: string;
    more: string;
    payload: string;
    position: string;
    at: number;
}

export function objectOf(text: string | null): JsonObject {
    const value = text === null || text === '' ? {} : parse(text);
    return isObject(value) ? value : {};
}

export function sealedOf(entry: EntryRow, lane: string): { sealed: Sealed; seal: string } {
    const { max_age_s: age, seal } = objectOf(entry.more);
    const most = typeof age === 'bigint' ? parseInt(age.toString(), 10) : null;
    const { id, kind, fingerprint, life, payload } = entry;
    return { sealed: { id, kind, fingerprint, life, lane, max_age_s: most, payload }, seal: typeof seal === 'string' ? seal : '' };
}

/** `purpose SP json NUL raw`. */
export function packAttempt(attempt: Attempt, raw: Bytes, receiver: string): string {
    const told = stringify({
        signed_at: BigInt(attempt.signedAt),
        base_height: attempt.baseHeight.toString(),
        valid_until: attempt.validUntil.toString(),
        terms: { receiver_id: receiver },
    });
    return base64(join(utf8(`first ${told}`), Uint8Array.of(0), raw));
}

export function readAttempt(row: AttemptRow): Attempt {
    const bytes = Uint8Array.from(atob(row.blob), (character) => character.charCodeAt(0));
    const end = bytes.indexOf(0);
    const told = objectOf(headOf(bytes, end));
    const { signed_at: at, base_height: base, valid_until: until } = told;
    return {
        nonce: row.nonce,
        hash: row.hash,
        raw: base64(bytes.subarray(end + 1)),
        baseHeight: BigInt(typeof base === 'string' ? base : 0),
        validUntil: BigInt(typeof until === 'string' ? until : 0),
        signedAt: typeof at === 'bigint' ? parseInt(at.toString(), 10) : 0,
    };
}

/** The JSON of an attempt: between its purpose and its bytes. */
function headOf(bytes: Uint8Array, end: number): string {
    return new TextDecoder().decode(bytes.subarray(bytes.indexOf(32) + 1, end));
}

export function packOutcome(outcome: Outcome): string {
    const { status, tx_hash, nonce, result, error } = outcome;
    return stringify({ status, tx_hash, nonce, result, error });
}

/** An end that no chain shows. */
export function packEnd(status: 'failed' | 'cancelled', error: JsonObject | null): string {
    return stringify({ status, tx_hash: null, nonce: null, result: null, error });
}

/** The record as its home keeps it: everything a retry is answered with, no raw bytes, no seal. */
export function packFinal(row: RecordRow, lane: string): { object: number; final: object } {
    const kept = Object.fromEntries(Object.entries(objectOf(row.more)).filter(([name]) => name !== 'seal'));
    const attempts = row.attempts.map(({ nonce, hash, purpose, blob, proof }): Json => {
        const bytes = Uint8Array.from(atob(blob), (character) => character.charCodeAt(0));
        const told = parse(headOf(bytes, bytes.indexOf(0)));
        return [nonce, hash, purpose, told, proof === null ? null : parse(proof)];
    });
    const record = stringify({
        kind: row.kind,
        more: Object.keys(kept).length > 0 ? stringify(kept) : '',
        at: BigInt(row.created),
        sid: row.position,
        outcome: parse(row.outcome ?? 'null'),
        hold: row.hold === null ? null : parse(row.hold),
        cancel: row.cancel_requested === 1,
        resigns: BigInt(row.resigns),
        attempts,
        up: BigInt(row.updated), // last, as the Python stack writes it
    });
    const slot = homeOf(row.id);
    const final = { id: row.id, slot, fingerprint: row.fingerprint, lane, life: row.life, born: row.created, record };
    return { object: slot % HOME_OBJECTS, final };
}
