// Generated from /openapi.json by `make openapi`. Do not edit.

import { TxManagerError } from '../errors.js';

/** The API answered with the problem code `bad_bytes`. */
export class BadBytesError extends TxManagerError {}

/** The API answered with the problem code `bad_signature`. */
export class BadSignatureError extends TxManagerError {}

/** The API answered with the problem code `body_too_large`. */
export class BodyTooLargeError extends TxManagerError {}

/** The API answered with the problem code `budget_exhausted`. */
export class BudgetExhaustedError extends TxManagerError {}

/** The API answered with the problem code `busy`. */
export class BusyError extends TxManagerError {}

/** The API answered with the problem code `error`. */
export class UnexpectedError extends TxManagerError {}

/** The API answered with the problem code `fenced`. */
export class FencedError extends TxManagerError {}

/** The API answered with the problem code `forbidden`. */
export class ForbiddenError extends TxManagerError {}

/** The API answered with the problem code `foreign_host`. */
export class ForeignHostError extends TxManagerError {}

/** The API answered with the problem code `headers_too_large`. */
export class HeadersTooLargeError extends TxManagerError {}

/** The API answered with the problem code `idempotency_key_reused`. */
export class IdempotencyKeyReusedError extends TxManagerError {}

/** The API answered with the problem code `invalid_idempotency_key`. */
export class InvalidIdempotencyKeyError extends TxManagerError {}

/** The API answered with the problem code `invalid_input`. */
export class InvalidInputError extends TxManagerError {}

/** The API answered with the problem code `invalid_settings`. */
export class InvalidSettingsError extends TxManagerError {}

/** The API answered with the problem code `key_missing`. */
export class KeyMissingError extends TxManagerError {}

/** The API answered with the problem code `lane_closed`. */
export class LaneClosedError extends TxManagerError {}

/** The API answered with the problem code `ledger_memory_full`. */
export class LedgerMemoryFullError extends TxManagerError {}

/** The API answered with the problem code `ledger_rolled_back`. */
export class LedgerRolledBackError extends TxManagerError {}

/** The API answered with the problem code `malformed_request`. */
export class MalformedRequestError extends TxManagerError {}

/** The API answered with the problem code `method_not_allowed`. */
export class MethodNotAllowedError extends TxManagerError {}

/** The API answered with the problem code `misconfigured`. */
export class MisconfiguredError extends TxManagerError {}

/** The API answered with the problem code `missing_idempotency_key`. */
export class MissingIdempotencyKeyError extends TxManagerError {}

/** The API answered with the problem code `no_lane`. */
export class NoLaneError extends TxManagerError {}

/** The API answered with the problem code `no_route`. */
export class NoRouteError extends TxManagerError {}

/** The API answered with the problem code `nonce_conflict`. */
export class NonceConflictError extends TxManagerError {}

/** The API answered with the problem code `not_allowed`. */
export class NotAllowedError extends TxManagerError {}

/** The API answered with the problem code `not_found`. */
export class NotFoundError extends TxManagerError {}

/** The API answered with the problem code `not_signed`. */
export class NotSignedError extends TxManagerError {}

/** The API answered with the problem code `outdated`. */
export class OutdatedError extends TxManagerError {}

/** The API answered with the problem code `own_account_refused`. */
export class OwnAccountRefusedError extends TxManagerError {}

/** The API answered with the problem code `policy_refused`. */
export class PolicyRefusedError extends TxManagerError {}

/** The API answered with the problem code `queue_full`. */
export class QueueFullError extends TxManagerError {}

/** The API answered with the problem code `quota_used`. */
export class QuotaUsedError extends TxManagerError {}

/** The API answered with the problem code `refused`. */
export class RefusedError extends TxManagerError {}

/** The API answered with the problem code `request_refused`. */
export class RequestRefusedError extends TxManagerError {}

/** The API answered with the problem code `request_too_slow`. */
export class RequestTooSlowError extends TxManagerError {}

/** The API answered with the problem code `reservation_over`. */
export class ReservationOverError extends TxManagerError {}

/** The API answered with the problem code `signer_away`. */
export class SignerAwayError extends TxManagerError {}

/** The API answered with the problem code `signer_fault`. */
export class SignerFaultError extends TxManagerError {}

/** The API answered with the problem code `signer_refused`. */
export class SignerRefusedError extends TxManagerError {}

/** The API answered with the problem code `stale_claim`. */
export class StaleClaimError extends TxManagerError {}

/** The API answered with the problem code `token_queue_full`. */
export class TokenQueueFullError extends TxManagerError {}

/** The API answered with the problem code `too_many_connections`. */
export class TooManyConnectionsError extends TxManagerError {}

/** The API answered with the problem code `too_many_held`. */
export class TooManyHeldError extends TxManagerError {}

/** The API answered with the problem code `too_many_streams`. */
export class TooManyStreamsError extends TxManagerError {}

/** The API answered with the problem code `transaction_refused`. */
export class TransactionRefusedError extends TxManagerError {}

/** The API answered with the problem code `turn_taken`. */
export class TurnTakenError extends TxManagerError {}

/** The API answered with the problem code `unauthorized`. */
export class UnauthorizedError extends TxManagerError {}

/** The API answered with the problem code `unavailable`. */
export class UnavailableError extends TxManagerError {}

/** The API answered with the problem code `unconfirmed`. */
export class UnconfirmedError extends TxManagerError {}

/** The API answered with the problem code `unsupported_media_type`. */
export class UnsupportedMediaTypeError extends TxManagerError {}

/** The class of each problem code. */
export const PROBLEMS = {
    bad_bytes: BadBytesError,
    bad_signature: BadSignatureError,
    body_too_large: BodyTooLargeError,
    budget_exhausted: BudgetExhaustedError,
    busy: BusyError,
    error: UnexpectedError,
    fenced: FencedError,
    forbidden: ForbiddenError,
    foreign_host: ForeignHostError,
    headers_too_large: HeadersTooLargeError,
    idempotency_key_reused: IdempotencyKeyReusedError,
    invalid_idempotency_key: InvalidIdempotencyKeyError,
    invalid_input: InvalidInputError,
    invalid_settings: InvalidSettingsError,
    key_missing: KeyMissingError,
    lane_closed: LaneClosedError,
    ledger_memory_full: LedgerMemoryFullError,
    ledger_rolled_back: LedgerRolledBackError,
    malformed_request: MalformedRequestError,
    method_not_allowed: MethodNotAllowedError,
    misconfigured: MisconfiguredError,
    missing_idempotency_key: MissingIdempotencyKeyError,
    no_lane: NoLaneError,
    no_route: NoRouteError,
    nonce_conflict: NonceConflictError,
    not_allowed: NotAllowedError,
    not_found: NotFoundError,
    not_signed: NotSignedError,
    outdated: OutdatedError,
    own_account_refused: OwnAccountRefusedError,
    policy_refused: PolicyRefusedError,
    queue_full: QueueFullError,
    quota_used: QuotaUsedError,
    refused: RefusedError,
    request_refused: RequestRefusedError,
    request_too_slow: RequestTooSlowError,
    reservation_over: ReservationOverError,
    signer_away: SignerAwayError,
    signer_fault: SignerFaultError,
    signer_refused: SignerRefusedError,
    stale_claim: StaleClaimError,
    token_queue_full: TokenQueueFullError,
    too_many_connections: TooManyConnectionsError,
    too_many_held: TooManyHeldError,
    too_many_streams: TooManyStreamsError,
    transaction_refused: TransactionRefusedError,
    turn_taken: TurnTakenError,
    unauthorized: UnauthorizedError,
    unavailable: UnavailableError,
    unconfirmed: UnconfirmedError,
    unsupported_media_type: UnsupportedMediaTypeError,
} as const;
