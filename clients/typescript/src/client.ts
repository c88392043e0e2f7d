/** Every call of the API. Retries are safe by construction: a submit's key is fixed before its first try. */
import { IntentFailedError, StillWaitingError } from './errors.js';
import { exchange, type Answer, type Patience } from './exchange.js';
import { follow } from './follow.js';
import { encode } from './json.js';
import { isFinal, readLane, readLanes, readPage, readRecord } from './records.js';
import { Transport, type Binding, type Fetch, type Outgoing } from './transport.js';
import type {
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
    ResolveVerb,
    SubmitOptions,
    WaitOptions,
} from './types.js';

/** The longest one request waits; longer waits are several requests. */
const LONGEST_WAIT_S = 30;
export const DERIVED: ReadonlySet<Kind> = new Set<Kind>(['near.create_account', 'near.recovery', 'near.delegate']);

export interface TxManagerOptions {
    /** Where the API is, such as `http://127.0.0.1:8080`. Either this or `binding`. */
    readonly baseUrl?: string | undefined;
    /** A service binding of a Worker, instead of a URL. */
    readonly binding?: Binding | undefined;
    readonly token?: string | undefined;
    /** The pool of every call that names none. */
    readonly pool?: string | undefined;
    /** How long a call is repeated; 30 s unless given. */
    readonly retryForMs?: number | undefined;
    /** How long one try may take beyond its wait; 10 s unless given. */
    readonly timeoutMs?: number | undefined;
    /** Another `fetch` than the runtime's. */
    readonly fetch?: Fetch | undefined;
}

export interface Reach {
    readonly transport: Transport;
    readonly patience: Patience;
    readonly pool: string | undefined;
}

/**
 * A client of txmanager. It holds no connection and no state: make one and share it.
 *
 * ```ts
 * const manager = new TxManager({ baseUrl: 'http://127.0.0.1:8080', token, pool: 'relayer' });
 * const { txHash } = await manager.execute('near.transfer', { receiver_id: 'bob.near', amount: 10n ** 24n }, { idempotencyKey: 'order-42' });
 * ```
 */
export class TxManager {
    readonly #transport: Transport;
    readonly #pool: string | undefined;
    readonly #retryForMs: number;
    readonly #timeoutMs: number;

    constructor(options: TxManagerOptions) {
        this.#transport = new Transport(options);
        this.#pool = options.pool;
        this.#retryForMs = options.retryForMs ?? 30_000;
        this.#timeoutMs = options.timeoutMs ?? 10_000;
    }

    /**
     * Submit an intent; the record says where it stands. Where the payload implies no key and none is given, this call
     * makes one up: give your own to make a retry after a restart of *your* process safe, too.
     *
     * ```ts
     * const record = await manager.submit('near.transfer', { receiver_id: 'bob.near', amount: '1' }, { idempotencyKey: 'order-42' });
     * ```
     */
    async submit<K extends Kind>(kind: K, payload: Payload<K>, options: SubmitOptions = {}): Promise<IntentRecord> {
        const { waitS = 0, partitionKey, maxAgeS, metadata } = options;
        const key = options.idempotencyKey ?? (DERIVED.has(kind) ? undefined : crypto.randomUUID());
        const body = encode({
            kind,
            payload,
            pool: options.pool ?? this.#pool,
            partition_key: partitionKey,
            max_age_s: maxAgeS,
            metadata,
        });
        const path = `/v1/intents${waitS ? `?wait=${waitS}` : ''}`;
        const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key };
        const { told, replayed } = await this.#exchange({ method: 'POST', path, headers, body }, options, waitS);
        return readRecord(told, replayed);
    }

    /**
     * Submit and wait for the end: the transaction's hash and what the chain said of it. An intent that ends failed or
     * cancelled is an `IntentFailedError`; one that is not final after `waitS` (60) a `StillWaitingError`, and goes on.
     *
     * ```ts
     * const { txHash, outcome } = await manager.execute('near.function_call', call, { idempotencyKey: 'claim-7' });
     * ```
     */
    async execute<K extends Kind>(
        kind: K,
        payload: Payload<K>,
        options: SubmitOptions & { readonly idempotencyKey: string },
    ): Promise<Execution> {
        const { waitS = 60 } = options;
        const until = performance.now() + waitS * 1000;
        let record = await this.submit(kind, payload, { ...options, waitS: Math.min(waitS, LONGEST_WAIT_S) });
        if (!isFinal(record.status)) {
            const left = Math.max(0, until - performance.now()) / 1000;
            record = await this.wait(record.idempotency_key, { ...options, pool: record.pool, waitS: left });
        }
        if (record.status !== 'done' || record.tx_hash === null) throw new IntentFailedError(record);
        return { txHash: record.tx_hash, outcome: record.outcome?.result ?? null, record };
    }

    /**
     * Create a NEAR account. Without a key, name and public key are the key: a retry never creates two.
     *
     * ```ts
     * await manager.createAccount({ new_account_id: 'alice.relayer.near', public_key: 'ed25519:...' }, { waitS: 30 });
     * ```
     */
    async createAccount(account: Payload<'near.create_account'>, options: SubmitOptions = {}): Promise<IntentRecord> {
        return await this.submit('near.create_account', account, options);
    }

    /**
     * Relay a user's signed delegate action, once, whoever asks and under whatever key: base64 of the borsh bytes, or
     * nearcore's JSON.
     *
     * ```ts
     * await manager.relay(signedDelegateBase64, { waitS: 30 });
     * ```
     */
    async relay(signedDelegate: string | Readonly<Record<string, unknown>>, options: SubmitOptions = {}): Promise<IntentRecord> {
        return await this.submit('near.delegate', { signed_delegate: signedDelegate }, options);
    }

    /**
     * Recover an account by one function call, tried once per (account, message).
     *
     * ```ts
     * await manager.recover({ account_id: 'alice.near', message_id, contract_id: 'recovery.near', method_name: 'recover', args });
     * ```
     */
    async recover(recovery: Payload<'near.recovery'>, options: SubmitOptions = {}): Promise<IntentRecord> {
        return await this.submit('near.recovery', recovery, options);
    }

    /**
     * Read an intent; with `waitS`, wait so long for its end.
     *
     * ```ts
     * const { status, tx_hash } = await manager.get('order-42');
     * ```
     */
    async get(key: string, options: WaitOptions = {}): Promise<IntentRecord> {
        const { waitS = 0 } = options;
        const path = intentPath(key) + this.#query(options, waitS);
        return readRecord((await this.#exchange({ method: 'GET', path }, options, waitS)).told);
    }

    /**
     * One page of intents, newest first; `cursor` of the page before goes on.
     *
     * ```ts
     * const { intents, cursor } = await manager.list({ status: 'held', limit: 20 });
     * ```
     */
    async list(filter: IntentFilter = {}, options: CallOptions = {}): Promise<IntentPage> {
        const query = new URLSearchParams({ ...(this.#pool && { pool: this.#pool }), ...filter } as Record<string, string>);
        return readPage((await this.#exchange({ method: 'GET', path: `/v1/intents?${query}` }, options)).told);
    }

    /**
     * The final record; a `StillWaitingError` when `waitS` (60) are over first.
     *
     * ```ts
     * const record = await manager.wait('order-42', { waitS: 120, signal });
     * ```
     */
    async wait(key: string, options: WaitOptions = {}): Promise<IntentRecord> {
        const until = performance.now() + (options.waitS ?? 60) * 1000;
        for (;;) {
            const left = Math.max(0, until - performance.now()) / 1000;
            const waitS = Math.round(Math.min(left, LONGEST_WAIT_S) * 1000) / 1000;
            const record = await this.get(key, { ...options, waitS });
            if (isFinal(record.status)) return record;
            if (performance.now() >= until) throw new StillWaitingError(record);
        }
    }

    /**
     * Withdraw an intent, where it is not too late.
     *
     * ```ts
     * await manager.cancel('order-42');
     * ```
     */
    async cancel(key: string, options: CallOptions = {}): Promise<IntentRecord> {
        const path = `${intentPath(key)}/cancel${this.#query(options)}`;
        return readRecord((await this.#exchange({ method: 'POST', path }, options)).told);
    }

    /**
     * An operator's decision on a held intent.
     *
     * ```ts
     * await manager.resolve('order-42', 'track');
     * ```
     */
    async resolve(key: string, verb: ResolveVerb, options: CallOptions = {}): Promise<IntentRecord> {
        const path = `${intentPath(key)}/resolve${this.#query(options)}`;
        return readRecord((await this.#exchange({ method: 'POST', path, body: encode({ verb }) }, options)).told);
    }

    /**
     * Every lane of the pool, or of all pools the token may see.
     *
     * ```ts
     * for (const lane of await manager.lanes()) report(lane.lane, lane.depth);
     * ```
     */
    async lanes(options: CallOptions = {}): Promise<Lane[]> {
        const path = `/v1/lanes${this.#query(options)}`;
        return readLanes((await this.#exchange({ method: 'GET', path }, options)).told);
    }

    /**
     * One lane by its id.
     *
     * ```ts
     * const { state, depth } = await manager.lane(record.lane);
     * ```
     */
    async lane(lane: string, options: CallOptions = {}): Promise<Lane> {
        return readLane((await this.#exchange({ method: 'GET', path: `/v1/lanes/${encodeURIComponent(lane)}` }, options)).told);
    }

    /**
     * An operator's word to a lane.
     *
     * ```ts
     * await manager.steer(record.lane, 'pause');
     * ```
     */
    async steer(lane: string, verb: LaneVerb, options: CallOptions = {}): Promise<Lane> {
        const path = `/v1/lanes/${encodeURIComponent(lane)}/${verb}`;
        return readLane((await this.#exchange({ method: 'POST', path }, options)).told);
    }

    /**
     * The intent's transitions up to the final one, through lost connections.
     *
     * ```ts
     * for await (const event of manager.follow('order-42')) show(event.status);
     * ```
     */
    follow(key: string, options: FollowOptions = {}): AsyncGenerator<IntentEvent, void, void> {
        const path = `${intentPath(key)}/events${this.#query(options)}`;
        return follow(this.#transport, { path, lastId: options.lastId, ends: true }, this.#patience(options));
    }

    /**
     * Every transition in a pool from now on, until the signal fires or the loop is left.
     *
     * ```ts
     * for await (const event of manager.followPool('relayer', { signal })) await store(event);
     * ```
     */
    followPool(pool: string, options: FollowOptions = {}): AsyncGenerator<IntentEvent, void, void> {
        const path = `/v1/pools/${encodeURIComponent(pool)}/events`;
        return follow(this.#transport, { path, lastId: options.lastId, ends: false }, this.#patience(options));
    }

    /** What `submitBatch` and `submitMany` send with. @internal */
    reach(options: CallOptions): Reach {
        return { transport: this.#transport, patience: this.#patience(options, LONGEST_WAIT_S), pool: options.pool ?? this.#pool };
    }

    async #exchange(request: Outgoing, options: CallOptions, waitS = 0): Promise<Answer> {
        return await exchange(this.#transport, request, this.#patience(options, waitS));
    }

    #query({ pool = this.#pool }: CallOptions, waitS = 0): string {
        const given = [...(pool === undefined ? [] : [`pool=${encodeURIComponent(pool)}`]), ...(waitS ? [`wait=${waitS}`] : [])];
        return given.length ? `?${given.join('&')}` : '';
    }

    #patience({ signal, timeoutMs = this.#timeoutMs }: CallOptions, waitS = 0): Patience {
        return { retryForMs: this.#retryForMs, timeoutMs: timeoutMs + waitS * 1000, signal };
    }
}

function intentPath(key: string): string {
    return `/v1/intents/${encodeURIComponent(key)}`;
}
