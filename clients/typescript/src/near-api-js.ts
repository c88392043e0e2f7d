/**
 * A drop-in for near-api-js 7: an `Account` whose transactions go through txmanager. It holds no key.
 *
 * ```ts
 * const account = new ManagedAccount('relayer.near', provider, { manager });
 * await account.once('order-42').transfer({ receiverId: 'bob.near', amount: NEAR.toUnits('1') });
 * ```
 */
import { Account, encodeSignedDelegate, type Provider, type Signer } from 'near-api-js';
import { base64 } from './actions.js';
import { pause } from './clock.js';
import { IntentFailedError } from './errors.js';
import { backoffMs } from './exchange.js';
import { Once, type ManagedOptions } from './once.js';
import type { IntentRecord } from './types.js';

type Send = Parameters<Account['signAndSendTransaction']>[0];
type SendMany = Parameters<Account['signAndSendTransactions']>[0];
type Outcome = Awaited<ReturnType<Account['signAndSendTransaction']>>;

const READ_TRIES = 8;

/** An account of near-api-js without a key: all its helpers send through `signAndSendTransaction`, and so do we. */
export class ManagedAccount extends Account {
    readonly #options: ManagedOptions;
    readonly #once: Once;

    constructor(accountId: string, provider: Provider | string, options: ManagedOptions & { readonly idempotencyKey?: string | undefined }) {
        super(accountId, provider, noSigner());
        this.#options = options;
        this.#once = new Once(options, accountId, options.idempotencyKey);
    }

    /**
     * The same account for one transaction with this key. Run again, it is the same transaction.
     *
     * ```ts
     * await account.once('claim-7').callFunction({ contractId, methodName: 'claim', args: {} });
     * ```
     */
    once(idempotencyKey: string): ManagedAccount {
        return new ManagedAccount(this.accountId, this.provider, { ...this.#options, idempotencyKey });
    }

    /** Sends through txmanager: no nonce is fetched and nothing is signed here. */
    override async signAndSendTransaction(sending: Send): Promise<Outcome> {
        return await this.#send(sending);
    }

    /** Each transaction has the key `{key}:{index}`. */
    override async signAndSendTransactions({ transactions, throwOnFailure = true }: SendMany): Promise<Outcome[]> {
        return await Promise.all(transactions.map((one, index) => this.#send({ ...one, throwOnFailure }, index)));
    }

    async #send({ receiverId, actions, throwOnFailure = true }: Send, index?: number): Promise<Outcome> {
        const delegate = actions.find((action) => action.signedDelegate !== undefined)?.signedDelegate;
        const record = delegate
            ? await this.#relay(base64(encodeSignedDelegate(delegate)))
            : await this.#once.send({ receiverId, actions: actions }, index);
        if (throwOnFailure && record.status !== 'done') throw new IntentFailedError(record);
        return await this.#outcome(record.tx_hash);
    }

    /** A delegate is its own key: it is relayed once, whoever asks. */
    async #relay(signedDelegate: string) {
        const { manager, pool, waitS = 60 } = this.#options;
        return await this.#once.settle(async () => {
            const record: IntentRecord = await manager.relay(signedDelegate, { pool });
            return await manager.wait(record.idempotency_key, { pool: record.pool, waitS });
        });
    }

    /** What the chain says of a final transaction. Reading may be repeated freely. */
    async #outcome(txHash: string): Promise<Outcome> {
        for (let tries = 1; ; tries += 1) {
            try {
                return await this.provider.viewTransactionStatus({ txHash, accountId: this.accountId, waitUntil: 'EXECUTED_OPTIMISTIC' });
            } catch (error) {
                if (tries >= READ_TRIES) throw error;
            }
            await pause(backoffMs(tries), undefined);
        }
    }
}

/** Some helpers want a signer to be set. This one never signs. */
function noSigner(): Signer {
    const refuse = () => Promise.reject(new TypeError('a ManagedAccount holds no key; txmanager signs'));
    const signer = { getPublicKey: refuse, signNep413Message: refuse, signTransaction: refuse, signDelegateAction: refuse };
    return signer as unknown as Signer;
}
