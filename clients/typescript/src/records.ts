/** From what the API tells to what the client answers; anything else is a `BadAnswerError`. */
import { BadAnswerError } from './errors.js';
import type { components } from './generated/schema.js';
import { refusal } from './refusal.js';
import type { BatchResult, IntentEvent, IntentPage, IntentRecord, Lane, Status } from './types.js';

type Schemas = components['schemas'];

/** Whether a status is an end: done, failed or cancelled. */
export function isFinal(status: Status): boolean {
    return status === 'done' || status === 'failed' || status === 'cancelled';
}

export function readRecord(told: unknown, replayed = false): IntentRecord {
    const record = shaped(told, 'record', ['idempotency_key', 'status', 'attempts']) as Schemas['RecordView'];
    const attempts = record.attempts.map((attempt) => ({ ...attempt, nonce: digits(attempt.nonce) }));
    return { ...record, nonce: record.nonce === null ? null : digits(record.nonce), attempts, replayed };
}

export function readResults(told: unknown): BatchResult[] {
    return (shaped(told, 'answer to a batch', ['results']) as Schemas['BatchView']).results.map((one, index) => readResult(index, one));
}

export function readResult(index: number, told: unknown): BatchResult {
    const { result, status, record, problem } = shaped(told, 'answer to an intent', ['result', 'status']) as Schemas['BatchResult'];
    if (record) return { index, result, record: readRecord(record, result === 'replayed') };
    return { index, result, error: refusal(status, JSON.stringify(problem), problem?.['retry_after_s'] as number | undefined) };
}

export function readPage(told: unknown): IntentPage {
    const page = shaped(told, 'list', ['intents']) as Schemas['IntentList'];
    return { ...page, intents: page.intents.map((one) => readRecord(one)) };
}

export function readEvent(told: unknown): IntentEvent {
    return shaped(told, 'event', ['id', 'idempotency_key', 'status']) as IntentEvent;
}

export function readLane(told: unknown): Lane {
    const lane = shaped(told, 'lane', ['lane', 'state']) as Schemas['LaneView'];
    const { cursor, landed } = lane;
    return { ...lane, cursor: cursor === null ? null : digits(cursor), landed: landed === null ? null : digits(landed) };
}

export function readLanes(told: unknown): Lane[] {
    return (shaped(told, 'list of lanes', ['lanes']) as Schemas['LaneList']).lanes.map(readLane);
}

// Beyond 2^53 `decode` has made a string of it already.
function digits(value: number): string {
    return String(value);
}

function shaped(told: unknown, what: string, names: readonly string[]): object {
    if (typeof told !== 'object' || told === null || names.some((name) => !(name in told)))
        throw new BadAnswerError(`what came back is no ${what}`);
    return told;
}
