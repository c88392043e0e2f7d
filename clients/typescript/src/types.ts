/** The shapes of the API: generated, with nonces as exact decimal strings and amounts that may be a bigint. */
import type { TxManagerError } from './errors.js';
import type { components } from './generated/schema.js';

type Schemas = components['schemas'];

/** queued, inflight, held, done, failed or cancelled; the last three are final. */
export type Status = Schemas['Status'];
/** A problem as the API tells it (RFC 9457). */
export type Problem = Schemas['Problem'];
/** One transition of an intent. Its `id` is the same when it arrives twice. */
export type IntentEvent = Schemas['EventView'];

/** One signed transaction of an intent. */
export type Attempt = Omit<Schemas['AttemptView'], 'nonce'> & { readonly nonce: string };

/** Everything there is to know of an intent, under the names of the API. */
export type IntentRecord = Omit<Schemas['RecordView'], 'nonce' | 'attempts'> & {
    readonly nonce: string | null;
    readonly attempts: readonly Attempt[];
    /** Whether the submit that answered this met a known key. */
    readonly replayed: boolean;
};

/** One page of a list, newest first. `cursor` is where the next one begins; null at the end. */
export type IntentPage = Omit<Schemas['IntentList'], 'intents'> & { readonly intents: readonly IntentRecord[] };

/** What a list shows; see `GET /v1/intents`. */
export interface IntentFilter {
    readonly pool?: string;
    readonly status?: Status;
    readonly kind?: string;
    readonly lane?: string;
    readonly key_prefix?: string;
    readonly hash?: string;
    readonly receiver?: string;
    readonly error?: string;
    readonly since?: string;
    readonly until?: string;
    readonly tenant?: string;
    readonly limit?: number;
    readonly cursor?: string | null;
    readonly [metadata: `metadata.${string}`]: string;
}

/** One signing key and its queue. */
export type Lane = Omit<Schemas['LaneView'], 'cursor' | 'landed'> & {
    readonly cursor: string | null;
    readonly landed: string | null;
};

type AnyIntent = Schemas['IntentRequest'];
/** The kinds of intents: `near.create_account`, `near.transfer`, `evm.transaction`, ... */
export type Kind = AnyIntent['kind'];
/** What a kind needs. Amounts may be a string or a bigint; both stay exact. */
export type Payload<K extends Kind> = Amounts<Extract<AnyIntent, { kind: K }>['payload']>;

/** The same shape, with a bigint allowed wherever the API takes digits as a string or a number. */
export type Amounts<T> = T extends readonly (infer Item)[]
    ? readonly Amounts<Item>[]
    : T extends object
      ? { [Name in keyof T]: Amount<T[Name]> }
      : T;
type Amount<T> = number extends T ? (string extends T ? T | bigint : Amounts<T>) : Amounts<T>;

/** What an operator can ask of a lane. */
export type LaneVerb = 'pause' | 'resume' | 'drain' | 'close' | 'rebaseline';
/** What an operator can decide on a held intent. */
export type ResolveVerb = 'track' | 'kill' | 'resign' | 'fail';

/** What every call may be given. */
export interface CallOptions {
    /** Another pool than the client's. */
    readonly pool?: string | undefined;
    /** Ends the call, never the intent. */
    readonly signal?: AbortSignal | undefined;
    /** How long one try may take, beyond what it waits. */
    readonly timeoutMs?: number | undefined;
}

/** What a call that waits may be given. */
export interface WaitOptions extends CallOptions {
    /** How many seconds to wait for the final state. */
    readonly waitS?: number | undefined;
}

/** What a submit may be given. */
export interface SubmitOptions extends WaitOptions {
    /** The same on every retry, also after a restart of your process. 1 to 255 visible ASCII characters. */
    readonly idempotencyKey?: string | undefined;
    /** Intents with the same one share a lane, and so keep their order. */
    readonly partitionKey?: string | undefined;
    /** Fail instead of signing when it waited longer than this. */
    readonly maxAgeS?: number | undefined;
    /** Yours; comes back in the record. */
    readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

type Each<K extends Kind> = { [One in K]: { readonly kind: One; readonly payload: Payload<One> } }[K];
/** One intent of many. */
export type BatchIntent = Each<Kind> &
    Pick<SubmitOptions, 'idempotencyKey' | 'partitionKey' | 'maxAgeS' | 'metadata' | 'pool'> & {
        /** Whose budget it is charged to, beside the token's and the pool's. */
        readonly budgetKey?: string | undefined;
    };

/** What became of one intent of many: a record, or the error that a call of its own would have thrown. */
export interface BatchResult {
    /** Its place among those that were given, from 0. */
    readonly index: number;
    readonly result: 'accepted' | 'replayed' | 'refused';
    readonly record?: IntentRecord;
    readonly error?: TxManagerError;
}

/** What a stream may be given. */
export interface FollowOptions extends CallOptions {
    /** Go on after this event id. */
    readonly lastId?: string | undefined;
}

/** What `execute` answers. */
export interface Execution {
    readonly txHash: string;
    /** What the chain said. */
    readonly outcome: Readonly<Record<string, unknown>> | null;
    readonly record: IntentRecord;
}
