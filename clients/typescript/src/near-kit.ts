/**
 * A drop-in for near-kit: a wallet whose transactions go through txmanager. It holds no key.
 *
 * ```ts
 * const wallets = managedWallets({ manager, accountId: 'relayer.near', rpcUrl });
 * const near = new Near({ network: 'mainnet', wallet: wallets.wallet('order-42') });
 * await near.send('bob.near', '1 NEAR');
 * ```
 */
import type { LibraryAction } from './actions.js';
import { Limit, pause } from './clock.js';
import { IntentFailedError, UnreachableError } from './errors.js';
import { backoffMs } from './exchange.js';
import { Once, type ManagedOptions } from './once.js';
import type { WalletConnection } from 'near-kit';

type Sent = ReturnType<WalletConnection['signAndSendTransaction']>;

const READ_TRIES = 8;
const READ_MS = 10_000;

export interface WalletOptions extends ManagedOptions {
    /** The account that the pool signs for. */
    readonly accountId: string;
    /** A node, to read outcomes from. */
    readonly rpcUrl: string;
}

/**
 * Wallets for `new Near({ wallet })`. near-kit gives a wallet no options with a transaction, so the key belongs to the
 * wallet: one wallet is one transaction.
 *
 * ```ts
 * const near = new Near({ network, wallet: managedWallets(options).wallet('order-42') });
 * ```
 */
export function managedWallets(options: WalletOptions): { wallet(idempotencyKey?: string): WalletConnection } {
    return {
        wallet(idempotencyKey) {
            const once = new Once(options, options.accountId, idempotencyKey);
            return {
                getAccounts: () => Promise.resolve([{ accountId: options.accountId }]),
                async signAndSendTransaction({ signerId = options.accountId, receiverId, actions }) {
                    if (signerId !== options.accountId) throw new TypeError(`this wallet is ${options.accountId}'s, not ${signerId}'s`);
                    const record = await once.send({ receiverId, actions: actions as readonly LibraryAction[] });
                    if (record.status !== 'done') throw new IntentFailedError(record);
                    return await outcomeOf(options, record.tx_hash);
                },
            };
        },
    };
}

/** What the chain says of a final transaction. Reading may be repeated freely. */
async function outcomeOf({ rpcUrl, accountId }: WalletOptions, txHash: string): Promise<Awaited<Sent>> {
    const params = { tx_hash: txHash, sender_account_id: accountId, wait_until: 'EXECUTED_OPTIMISTIC' };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 'txmanager', method: 'tx', params });
    for (let tries = 1; ; tries += 1) {
        const limit = new Limit(READ_MS, undefined);
        try {
            const headers = { 'content-type': 'application/json' };
            const reply = await fetch(rpcUrl, { method: 'POST', headers, body, signal: limit.signal });
            const told = (await reply.json()) as { readonly result?: Awaited<Sent>; readonly error?: unknown };
            if (told.result !== undefined) return told.result;
            throw new Error(`the node does not tell the outcome: ${JSON.stringify(told.error)}`);
        } catch (error) {
            if (tries >= READ_TRIES) throw new UnreachableError(`transaction ${txHash} is final, its outcome could not be read`, error);
        } finally {
            limit.end();
        }
        await pause(backoffMs(tries), undefined);
    }
}
