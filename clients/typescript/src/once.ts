/**
 * One handle is one transaction. What a script sends through it has the key of the handle, so the script may be killed
 * and run again: nothing happens twice. A second, different transaction is refused before it is sent.
 */
import type { TxManager } from './client.js';
import { IntentFailedError } from './errors.js';
import { toApiAction, type LibraryAction } from './actions.js';
import { encode } from './json.js';
import type { IntentRecord } from './types.js';

/** What a drop-in is set up with. */
export interface ManagedOptions {
    readonly manager: TxManager;
    /** The pool that signs for the account; the client's own unless given. */
    readonly pool?: string | undefined;
    /** How many seconds to wait for the chain; 60 unless given. */
    readonly waitS?: number | undefined;
    /** Send without a key. A script that is killed and run again may then pay twice. */
    readonly unsafeAutoKey?: boolean | undefined;
}

export interface Sending {
    readonly receiverId: string;
    readonly actions: readonly LibraryAction[];
}

export class Once {
    readonly #options: ManagedOptions;
    readonly #accountId: string;
    readonly #key: string | undefined;
    #sent: string | undefined;

    constructor(options: ManagedOptions, accountId: string, key: string | undefined) {
        this.#options = options;
        this.#accountId = accountId;
        this.#key = key;
    }

    /** The final record of the transaction. `index` is its place where a list is sent. */
    async send({ receiverId, actions }: Sending, index?: number): Promise<IntentRecord & { readonly tx_hash: string }> {
        const payload = { receiver_id: receiverId, actions: actions.map(toApiAction) };
        const idempotencyKey = index === undefined ? this.#keyOf(actions, encode(payload)) : this.key(`:${index}`);
        const { pool, waitS } = this.#options;
        return await this.settle(async () => (await this.#options.manager.execute('near.transaction', payload, { idempotencyKey, pool, waitS })).record);
    }

    /** A failed intent with a transaction is an answer of the chain; the caller decides whether that is an error. */
    async settle(act: () => Promise<IntentRecord>): Promise<IntentRecord & { readonly tx_hash: string }> {
        let record: IntentRecord;
        try {
            record = await act();
        } catch (error) {
            if (!(error instanceof IntentFailedError) || !error.record?.tx_hash) throw error;
            record = error.record;
        }
        const { tx_hash } = record;
        if (tx_hash === null) throw new IntentFailedError(record);
        const signer = record.lane.split(':')[2];
        if (signer !== this.#accountId) throw new TypeError(`pool ${record.pool} signs for ${signer ?? 'nobody'}, not for ${this.#accountId}`);
        return { ...record, tx_hash };
    }

    key(suffix = ''): string {
        if (this.#key !== undefined) return this.#key + suffix;
        if (this.#options.unsafeAutoKey) return crypto.randomUUID();
        throw new TypeError('which transaction is this? Use once(key), with a key that is the same when the script runs again');
    }

    #keyOf(actions: readonly LibraryAction[], payload: string): string {
        // A transfer of a token registers its receiver first: a transaction of its own, with a key of its own.
        if (actions.length === 1 && actions[0]?.functionCall?.methodName === 'storage_deposit') return this.key(':register');
        const key = this.key();
        if (this.#key !== undefined && this.#sent !== undefined && this.#sent !== payload)
            throw new TypeError(`key ${key} stands for another transaction already; one key is one transaction`);
        this.#sent = payload;
        return key;
    }
}
