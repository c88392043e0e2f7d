/**
 * The client of txmanager. See `TxManager`.
 *
 * @packageDocumentation
 */
export { submitBatch, submitMany } from './batches.js';
export { TxManager, type TxManagerOptions } from './client.js';
export { AbortedError, BadAnswerError, IntentFailedError, StillWaitingError, TxManagerError, UnreachableError } from './errors.js';
export * from './generated/problems.js';
export { isFinal } from './records.js';
export type { Binding, Fetch, FetchInit } from './transport.js';
export type {
    Amounts,
    Attempt,
    BatchIntent,
    BatchResult,
    CallOptions,
    Execution,
    FollowOptions,
    IntentEvent,
    IntentFilter,
    IntentPage,
    IntentRecord,
    Kind,
    Lane,
    LaneVerb,
    Payload,
    Problem,
    ResolveVerb,
    Status,
    SubmitOptions,
    WaitOptions,
} from './types.js';
export { verifyWebhook, type WebhookOptions } from './webhook.js';
