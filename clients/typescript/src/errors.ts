/**
 * What a call can end with. Every error is a `TxManagerError`; `retryable` says whether the same call, with the same
 * key, may help. Problems of the API have a class each, generated from its codes (generated/problems.ts).
 *
 * TxManagerError
 * ├── UnreachableError      no answer within the time for retries: make the same call again, with the same key
 * ├── StillWaitingError     the intent is not final yet; it goes on, wait again
 * ├── IntentFailedError     `execute`: the intent ended failed or cancelled; `record` says why
 * ├── AbortedError          the caller's signal ended the call; the intent goes on
 * ├── BadAnswerError        what answered is not the API
 * └── ...Error              one class for each problem code: QuotaUsedError, IdempotencyKeyReusedError, ...
 */
import type { IntentRecord, Problem } from './types.js';

/** What an error carries beside its message. */
export interface ErrorDetails {
    readonly code: string;
    readonly retryable: boolean;
    readonly status?: number | undefined;
    readonly problem?: Partial<Problem> | undefined;
    readonly retryAfterS?: number | undefined;
    readonly record?: IntentRecord | undefined;
    readonly cause?: unknown;
}

/** Base of every error of this package. */
export class TxManagerError extends Error {
    /** Stable and machine-readable: the problem's code, or `unreachable`, `still_waiting`, `intent_failed`, ... */
    readonly code: string;
    /** Whether the same call with the same idempotency key may succeed later. */
    readonly retryable: boolean;
    /** The HTTP status, where the API answered. */
    readonly status: number | undefined;
    /** The field that is wrong, where there is one. */
    readonly field: string | undefined;
    /** What was stored in spite of the error, in words. */
    readonly kept: string | undefined;
    /** What helps, in words. */
    readonly do: string | undefined;
    /** The whole problem as the API told it. */
    readonly problem: Partial<Problem>;
    /** How many seconds the API asked to wait. */
    readonly retryAfterS: number | undefined;
    /** The record as it stood, where the error is about one. */
    readonly record: IntentRecord | undefined;

    constructor(message: string, details: ErrorDetails) {
        super(message, details.cause === undefined ? undefined : { cause: details.cause });
        this.name = new.target.name;
        this.code = details.code;
        this.retryable = details.retryable;
        this.status = details.status;
        this.problem = details.problem ?? {};
        this.field = this.problem.field ?? undefined;
        this.kept = this.problem.kept;
        this.do = this.problem.do;
        this.retryAfterS = details.retryAfterS;
        this.record = details.record;
    }
}

/** No answer within `retryForMs`. Whether the API acted is unknown: make the same call again, with the same key. */
export class UnreachableError extends TxManagerError {
    constructor(message: string, cause: unknown) {
        super(message, { code: 'unreachable', retryable: true, cause });
    }
}

/** The time to wait is over and the intent is not final. It goes on; wait again. */
export class StillWaitingError extends TxManagerError {
    constructor(record: IntentRecord) {
        super(`intent ${record.idempotency_key} is ${record.status}; it goes on, wait again`, {
            code: 'still_waiting',
            retryable: true,
            record,
        });
    }
}

/** The intent is final and did not succeed. The same key answers the same for ever. */
export class IntentFailedError extends TxManagerError {
    constructor(record: IntentRecord) {
        const why = record.error?.['message'];
        super(`intent ${record.idempotency_key} ended ${record.status}${typeof why === 'string' ? `: ${why}` : ''}`, {
            code: 'intent_failed',
            retryable: false,
            record,
        });
    }
}

/** The caller's `signal` ended the call. What was accepted goes on: ask for it by its key. */
export class AbortedError extends TxManagerError {
    constructor(cause: unknown) {
        super('the caller ended the call; what was accepted goes on', { code: 'aborted', retryable: true, cause });
    }
}

/** What answered is not the API of txmanager. */
export class BadAnswerError extends TxManagerError {
    constructor(message: string, cause?: unknown) {
        super(message, { code: 'bad_answer', retryable: false, cause });
    }
}
