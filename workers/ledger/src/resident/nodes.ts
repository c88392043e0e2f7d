/**
 * Questions to NEAR nodes. Nodes may lie: with two or more of them, whatever ends or stops something without an effect
 * needs two whole answers. What a node says that cannot be read is that node's fault.
 */

import type { Json, JsonObject } from '../near/exact';
import { isObject } from '../near/fields';
import { BadAnswer, judge, type Outcome } from '../near/judge';
import type { KeyView } from '../near/policy';
import { verdictOf, type Failure, type Verdict } from '../near/verdicts';

export type Reply = { ok: Json } | { failure: Failure };
export type Ask = (node: number, method: string, params: Json, timeoutMs: number) => Promise<Reply>;

/** nearcore waits 10 s at most before it says TIMEOUT_ERROR. */
const SEND_MS = 12_000;
const ASK_MS = 5_000;
const KEPT_EPOCHS = 4n;
/** Refusals that other nodes are asked about, too. */
const FINAL_WORDS: readonly Verdict[] = ['nonce_too_low', 'expired', 'permanent', 'key_missing', 'insufficient_funds'];

export interface Attempt {
    nonce: string;
    hash: string;
    raw: string;
    baseHeight: bigint;
    validUntil: bigint;
    signedAt: number;
}

export interface Sighting {
    where: 'final' | 'included' | 'unknown';
    outcome?: Outcome;
    doubt: 'conflict' | 'missing' | null;
}

export interface Place {
    account: string;
    key: string;
}

export class Nodes {
    private turn = 0;

    constructor(
        private readonly ask: Ask,
        private readonly direct: readonly boolean[],
        private readonly epochBlocks: bigint,
    ) {}

    /** How many must say what ends an intent without an effect, or stops a lane. */
    get needed(): number {
        return Math.min(2, this.direct.length);
    }

    /** All nodes, beginning with the one that answered last. */
    private get order(): number[] {
        return this.direct.map((_, at) => (this.turn + at) % this.direct.length);
    }

    private async query(node: number, method: string, params: Json): Promise<Json> {
        const reply = await this.ask(node, method, params, ASK_MS);
        if ('failure' in reply) throw new Away(reply.failure);
        this.turn = node;
        return reply.ok;
    }

    // -- keys and accounts

    /** 'missing': the node says that there is no such key. undefined: it says nothing of use. */
    async key(node: number, { account, key }: Place, finality: 'final' | 'optimistic'): Promise<KeyView | 'missing' | undefined> {
        try {
            return readKey(await this.query(node, 'query', { request_type: 'view_access_key', account_id: account, public_key: key, finality }));
        } catch (error) {
            if (error instanceof Away && ['UNKNOWN_ACCOUNT', 'UNKNOWN_ACCESS_KEY'].includes(error.failure.cause ?? '')) return 'missing';
            if (error instanceof Away || error instanceof BadAnswer) return undefined;
            throw error;
        }
    }

    /** What every node says, of those that say something. */
    async keys(place: Place, finality: 'final' | 'optimistic' = 'final'): Promise<(KeyView | 'missing')[]> {
        const found: (KeyView | 'missing')[] = [];
        for (const node of this.order) {
            const told = await this.key(node, place, finality);
            if (told !== undefined) found.push(told);
        }
        return found;
    }

    /** The first reading that passes, and what the other nodes said on the way to it. */
    async firstKey(place: Place, passes: (key: KeyView) => boolean): Promise<{ key: KeyView | undefined; others: (KeyView | 'missing')[] }> {
        const others: (KeyView | 'missing')[] = [];
        for (const node of this.order) {
            const told = await this.key(node, place, 'final');
            if (told !== undefined && told !== 'missing' && passes(told)) return { key: told, others };
            if (told !== undefined) others.push(told);
        }
        return { key: undefined, others };
    }

    /** What the account has, without what it has staked, as each node sees it. */
    async balances(account: string): Promise<bigint[]> {
        const found: bigint[] = [];
        for (const node of this.order) {
            try {
                const told = await this.query(node, 'query', { request_type: 'view_account', account_id: account, finality: 'optimistic' });
                found.push(number(isObject(told) ? told['amount'] : undefined, 'an amount'));
            } catch (error) {
                if (!(error instanceof Away || error instanceof BadAnswer)) throw error;
            }
        }
        return found;
    }

    // -- one transaction

    /** Where the bytes are. One node's word is enough for `done`; `failed` needs `needed` of them. */
    async lookUp(account: string, kind: string, payload: JsonObject, attempt: Attempt): Promise<Sighting | undefined> {
        const outcomes: Outcome[] = [];
        let [asked, included] = [0, false];
        for (const node of this.order) {
            const found = await this.lookAt(node, account, kind, payload, attempt);
            if (found === undefined) continue;
            asked += 1;
            if (found === 'included') included = true;
            else if (found !== 'unknown') outcomes.push(found);
            const [first] = outcomes;
            if (first?.status === 'done' && outcomes.length === 1) return { where: 'final', outcome: first, doubt: null };
            if (first !== undefined && outcomes.some((other) => other.status !== first.status)) {
                return { where: 'final', outcome: first, doubt: 'conflict' };
            }
            if (first !== undefined && outcomes.length >= this.needed) return { where: 'final', outcome: first, doubt: null };
        }
        const [first] = outcomes;
        if (first !== undefined) return { where: 'final', outcome: first, doubt: 'missing' };
        if (included) return { where: 'included', doubt: null };
        return asked === 0 ? undefined : { where: 'unknown', doubt: null };
    }

    private async lookAt(
        node: number,
        account: string,
        kind: string,
        payload: JsonObject,
        { hash, nonce }: Attempt,
    ): Promise<Outcome | 'included' | 'unknown' | undefined> {
        const params = { tx_hash: hash, sender_account_id: account, wait_until: 'NONE' };
        try {
            const told = await this.query(node, 'EXPERIMENTAL_tx_status', params);
            const status = isObject(told) ? told['final_execution_status'] : undefined;
            if (status === 'FINAL') return judge(kind, payload, told, hash, nonce);
            if (typeof status !== 'string') throw new BadAnswer("a transaction's final_execution_status is not known here");
            return status === 'NONE' ? 'unknown' : 'included';
        } catch (error) {
            if (error instanceof Away) {
                return ['UNKNOWN_TRANSACTION', 'TIMEOUT_ERROR'].includes(error.failure.cause ?? '') ? 'unknown' : undefined;
            }
            if (error instanceof BadAnswer) return undefined;
            throw error;
        }
    }

    /**
     * Hand the bytes to a node that validates them and waits for their end. A refusal counts when `needed` nodes refuse;
     * bytes that one node takes are sent, whatever others said.
     */
    async send(raw: string): Promise<{ verdict: Verdict; message: string }> {
        const refusals: { verdict: Verdict; message: string }[] = [];
        let last: { verdict: Verdict; message: string } = { verdict: 'unavailable', message: 'no node answered' };
        for (const node of this.order) {
            const reply = await this.ask(node, 'send_tx', { signed_tx_base64: raw, wait_until: 'FINAL' }, SEND_MS);
            if ('ok' in reply) {
                this.turn = node;
                return { verdict: 'accepted', message: '' };
            }
            const verdict = verdictOf(reply.failure, true);
            last = { verdict, message: reply.failure.message };
            if (verdict === 'accepted') return last;
            if (FINAL_WORDS.includes(verdict)) refusals.push(last);
            else if (verdict !== 'unavailable') break; // busy, or nobody knows: it may be on its way
            if (refusals.length >= this.needed) return refusals.find((one) => one.verdict !== 'nonce_too_low') ?? last;
        }
        // too few of them: nobody may rely on it
        return refusals.length > 0 && refusals.length < this.needed ? { verdict: 'unknown', message: last.message } : last;
    }

    /**
     * Proof of death, by `needed` identified nodes. First, at a final block F: the key's nonce is at or above this one, or F
     * is beyond the validity of the bytes. Then the same node, which has seen F and keeps that age, does not know them.
     */
    async proveDead(place: Place, attempt: Attempt): Promise<JsonObject | undefined> {
        const proofs: JsonObject[] = [];
        for (const node of this.order) {
            if (this.direct[node] !== true) continue;
            const proof = await this.proveBy(node, place, attempt);
            if (proof !== undefined) proofs.push(proof);
            if (proofs.length >= this.needed) return proofs[0];
        }
        return undefined;
    }

    private async proveBy(node: number, place: Place, attempt: Attempt): Promise<JsonObject | undefined> {
        try {
            const before = readStatus(await this.query(node, 'status', []));
            const key = await this.key(node, place, 'final');
            if (key === undefined || key === 'missing') return undefined;
            const overtaken = key.nonce >= BigInt(attempt.nonce);
            if (!overtaken && key.height <= attempt.validUntil) return undefined;
            if (key.height >= attempt.baseHeight + KEPT_EPOCHS * this.epochBlocks) return undefined;
            const params = { tx_hash: attempt.hash, sender_account_id: place.account, wait_until: 'NONE' };
            const reply = await this.ask(node, 'EXPERIMENTAL_tx_status', params, ASK_MS);
            if (!('failure' in reply) || reply.failure.cause !== 'UNKNOWN_TRANSACTION') return undefined;
            const after = readStatus(await this.query(node, 'status', []));
            if (before.node !== after.node || after.head < key.height || before.syncing || after.syncing) return undefined;
            if (after.earliest === undefined || after.earliest > attempt.baseHeight) return undefined;
            return {
                cause: overtaken ? 'overtaken' : 'expired',
                by: 'node',
                node_key: after.node,
                final_height: key.height.toString(),
                final_nonce: key.nonce.toString(),
            };
        } catch (error) {
            if (error instanceof Away || error instanceof BadAnswer) return undefined;
            throw error;
        }
    }
}

/** A node did not answer, or answered an error. */
class Away extends Error {
    constructor(readonly failure: Failure) {
        super(failure.message);
    }
}

function number(value: Json | undefined, what: string): bigint {
    if (typeof value === 'string' && /^[0-9]{1,39}$/.test(value)) return BigInt(value);
    if (typeof value !== 'bigint' || value < 0n) throw new BadAnswer(`${what} is not a whole number`);
    return value;
}

/** nearcore answers a missing key as a *result*; reading its absent nonce as 0 is a classic way to lose money. */
function readKey(told: Json): KeyView | 'missing' {
    if (!isObject(told)) throw new BadAnswer('an access key is not an object');
    const error = told['error'];
    if (error !== undefined) {
        if (typeof error === 'string' && error.includes('does not exist')) return 'missing';
        throw new BadAnswer('view_access_key failed');
    }
    const { permission, block_hash: blockHash } = told;
    const names = isObject(permission) ? Object.keys(permission) : [];
    const call = isObject(permission) ? permission['FunctionCall'] : undefined;
    const gasKey = names.some((name) => name.startsWith('GasKey'));
    if (permission !== 'FullAccess' && !isObject(call) && !gasKey) throw new BadAnswer("an access key's permission is not known here");
    if (typeof blockHash !== 'string') throw new BadAnswer('block_hash is not a string');
    const height = number(told['block_height'], 'block_height');
    return { nonce: number(told['nonce'], 'a nonce'), height, blockHash, permission: isObject(call) ? call : null, gasKey };
}

function readStatus(told: Json): { node: string; head: bigint; earliest: bigint | undefined; syncing: boolean } {
    const info = isObject(told) ? told['sync_info'] : undefined;
    const node = isObject(told) ? told['node_public_key'] : undefined;
    if (!isObject(info) || typeof node !== 'string') throw new BadAnswer('a status is not in nearcore\'s shape');
    const earliest = info['earliest_block_height'] ?? null;
    return {
        node,
        head: number(info['latest_block_height'], 'latest_block_height'),
        earliest: earliest === null ? undefined : number(earliest, 'earliest_block_height'),
        syncing: info['syncing'] !== false,
    };
}
