/** The one shape of a record and a lane in JSON. A final record always makes the same bytes. */

import { parse, stringify, type Json, type JsonObject } from '../near/exact';
import { isObject } from '../near/fields';
import { objectOf, type RecordRow } from '../resident/rows';

const HINTS: Readonly<Record<string, string>> = {
    'create:': 'the key was derived from the payload; an Idempotency-Key of your own allows another try',
    'recovery:': 'the key was derived from the payload; an Idempotency-Key of your own allows another try',
    'delegate:': 'a delegate is relayed once; let the user sign a new one for another try',
};

export interface Stored {
    id: string;
    lane: string;
    life: string;
    fingerprint: string;
    kind: string;
    status: string;
    created: number;
    updated: number;
    more: JsonObject;
    outcome: JsonObject | null;
    hold: JsonObject | null;
    attempts: { nonce: string; hash: string; purpose: string; signedAt: number; proof: Json }[];
}

export function ofLane(row: RecordRow, lane: string): Stored {
    const attempts = row.attempts.map(({ nonce, hash, purpose, blob, proof }) => {
        const bytes = Uint8Array.from(atob(blob), (character) => character.charCodeAt(0));
        const told = objectOf(new TextDecoder().decode(bytes.subarray(bytes.indexOf(32) + 1, bytes.indexOf(0))));
        return { nonce, hash, purpose, signedAt: small(told['signed_at']), proof: proof === null ? null : parse(proof) };
    });
    const { id, life, fingerprint, kind, status, created, updated } = row;
    const [outcome, hold] = [row.outcome, row.hold].map((text) => (text === null ? null : objectOf(text)));
    return { id, lane, life, fingerprint, kind, status, created, updated, more: objectOf(row.more), outcome: outcome ?? null, hold: hold ?? null, attempts };
}

/** A final record, as its home keeps it. */
export function ofHome(id: string, home: { lane: string; life: string; fingerprint: string; record: string }): Stored {
    const body = objectOf(home.record);
    const outcome = isObject(body['outcome']) ? body['outcome'] : null;
    const attempts = Array.isArray(body['attempts']) ? body['attempts'] : [];
    return {
        ...{ id, lane: home.lane, life: home.life, fingerprint: home.fingerprint },
        kind: text(body['kind']),
        status: text(outcome?.['status']),
        created: small(body['at']),
        updated: small(body['up']),
        more: objectOf(text(body['more'])),
        outcome,
        hold: isObject(body['hold']) ? body['hold'] : null,
        attempts: attempts.map((one) => {
            const [nonce, hash, purpose, told, proof] = Array.isArray(one) ? one : [];
            const signedAt = small(isObject(told) ? told['signed_at'] : undefined);
            return { nonce: text(nonce), hash: text(hash), purpose: text(purpose), signedAt, proof: proof ?? null };
        }),
    };
}

export function isFinal({ status }: Pick<Stored, 'status'>): boolean {
    return status === 'done' || status === 'failed' || status === 'cancelled';
}

export function recordJson(record: Stored): string {
    const [, pool = '', ...key] = record.id.split('/');
    const live = record.attempts.filter(({ proof }) => proof === null).at(-1);
    const [hash, nonce] = record.outcome === null ? [live?.hash ?? null, live?.nonce ?? null] : [record.outcome['tx_hash'] ?? null, record.outcome['nonce'] ?? null];
    return stringify({
        idempotency_key: key.join('/'),
        kind: record.kind,
        pool,
        lane: record.lane,
        status: record.status,
        tx_hash: hash,
        nonce: nonce === null ? null : whole(nonce),
        attempts: record.attempts.map((one) => ({
            nonce: whole(one.nonce),
            tx_hash: one.hash,
            purpose: one.purpose,
            signed_at: instant(one.signedAt),
            dead: one.proof,
        })),
        outcome: record.outcome === null ? null : { status: record.outcome['status'] ?? null, result: record.outcome['result'] ?? null },
        error: errorOf(record, key.join('/')),
        created_at: instant(record.created),
        updated_at: instant(record.updated),
        metadata: record.more['metadata'] ?? {},
    });
}

function errorOf(record: Stored, key: string): Json {
    if (record.outcome !== null) {
        const error = record.outcome['error'];
        if (!isObject(error)) return null;
        const hint = Object.entries(HINTS).find(([begin]) => key.startsWith(begin))?.[1];
        return hint === undefined ? error : { ...error, hint };
    }
    return record.status === 'held' && record.hold !== null ? { code: 'held', ...record.hold } : null;
}

export interface LaneRow {
    id: string;
    pool: string;
    state: string;
    keyless: number;
    reason: string;
    evidence: string;
    owner: string;
    epoch: number;
    lease_ms: number;
    cursor: string | null;
    landed: string | null;
    depth: number;
    unfinished: number;
    oldest_ms: number;
    sends: number;
    send_ms: number;
    invalid_nonces: number;
}

export function laneJson(lane: LaneRow): JsonObject {
    return {
        lane: lane.id,
        pool: lane.pool,
        state: lane.state,
        keyless: lane.keyless === 1,
        reason: lane.reason,
        evidence: objectOf(lane.evidence),
        owner: lane.lease_ms > 0 ? lane.owner : '',
        epoch: BigInt(lane.epoch),
        lease_ms: BigInt(Math.floor(lane.lease_ms)),
        cursor: lane.cursor === null ? null : BigInt(lane.cursor),
        landed: lane.landed === null ? null : BigInt(lane.landed),
        depth: BigInt(lane.depth),
        unfinished: BigInt(lane.unfinished),
        oldest_ms: BigInt(Math.floor(lane.oldest_ms)),
    };
}

export function instant(ms: number): string {
    return new Date(ms).toISOString();
}

function text(value: Json | undefined): string {
    return typeof value === 'string' ? value : '';
}

function whole(value: Json): Json {
    return typeof value === 'string' && /^[0-9]+$/.test(value) ? BigInt(value) : value;
}

function small(value: Json | undefined): number {
    return typeof value === 'bigint' ? parseInt(value.toString(), 10) : 0;
}
