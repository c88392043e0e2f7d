/** The first attempt of the oldest queued intent: checked, signed once, written ahead. Nothing is sent from here. */

import { base64 } from '../near/bytes';
import { attachedDeposit, attachedGas, type Action, type SignedDelegate } from '../near/actions';
import { checkSignature } from '../near/delegate';
import type { JsonObject } from '../near/exact';
import { Invalid } from '../near/invalid';
import { keyText } from '../near/names';
import { compile, delegateOf, type Body } from '../near/payload';
import { checkCallPermission, checkDelegateNonce, checkDelegatePolicy, checkExpiry, checkPolicy, depositAtRisk, UNLIMITED, type KeyView } from '../near/policy';
import type { After, Loop } from './loop';
import type { Attempt } from './nodes';
import { objectOf, packAttempt, packEnd, sealedOf, type EntryRow, type LaneView } from './rows';
import { StepRefused } from './world';

const SOON_MS = 1_000;
/** Gas that any transaction uses beside what it attaches. */
const PLAIN_GAS = 10n ** 12n;

/** Why an intent cannot be signed now: it fails alone, or nobody knows yet. */
type Refusal = { error: JsonObject } | { after: number };

export class First {
    /** The hash that this loop signed last: nobody can have seen it before this loop sends it. */
    signed = '';

    constructor(private readonly loop: Loop) {}

    /** null: the queue is empty. */
    async sign(lane: LaneView): Promise<After> {
        const { loop } = this;
        const { world, nodes } = loop;
        if (lane.cursor === null) return this.baseline();
        const [entry] = await loop.own<EntryRow[]>('take', { count: 1 });
        if (entry === undefined) return null;
        const { sealed, seal } = sealedOf(entry, world.lane);
        const check = await world.seals.check(sealed, seal);
        if (check !== 'good') return this.setAside(entry, check);
        if (sealed.max_age_s !== null && world.now() - entry.at > sealed.max_age_s * 1000) {
            return this.fail(entry, failure('max_age', 'not signed within max_age_s; nothing was spent', true));
        }
        const body = await this.compile(entry);
        if ('code' in body) return this.fail(entry, body);
        const delegate = delegateOf(body);
        const refusal = (delegate === undefined ? undefined : await this.checkDelegate(delegate)) ?? (await this.checkFunds(body.actions));
        if (refusal !== undefined) return 'error' in refusal ? this.fail(entry, refusal.error) : refusal.after;

        const expected = [BigInt(lane.landed ?? '0'), BigInt(lane.baseline ?? '0') - 1n].reduce((one, other) => (one > other ? one : other));
        const { key, others } = await nodes.firstKey(loop.place, ({ nonce }) => nonce === expected);
        if (key === undefined) return this.lost(others, expected);
        if (key.permission !== null) {
            try {
                checkCallPermission(body.receiver, body.actions, key.permission, 'lane');
            } catch (error) {
                if (error instanceof Invalid) return this.fail(entry, failure('invalid_intent', error.message, true, error.field));
                throw error;
            }
        }
        return this.writeAhead(lane.cursor, entry, body, key);
    }

    private async writeAhead(cursor: string, entry: EntryRow, body: Body, key: KeyView): Promise<After> {
        const { world } = this.loop;
        const signed = await world.signer.sign(body, BigInt(cursor), key.blockHash);
        const attempt: Attempt = {
            nonce: cursor,
            hash: signed.hash,
            raw: base64(signed.raw),
            baseHeight: key.height,
            validUntil: key.height + world.settings.validityBlocks,
            signedAt: world.now(),
        };
        const { id, life, position } = entry;
        const blob = packAttempt(attempt, signed.raw, body.receiver);
        const write = { id, life, position, nonce: cursor, hash: signed.hash, purpose: 'first', blob, deaths: {}, counted: false };
        try {
            await this.loop.own('record_attempts', { cursor, batch: [write] });
        } catch (error) {
            // cancelled meanwhile, or paused: nothing was written, so these bytes never leave
            if (error instanceof StepRefused && error.word === 'refused') return SOON_MS;
            throw error;
        }
        this.signed = signed.hash;
        world.log('signed', { intent: id, nonce: cursor, hash: signed.hash });
        return 0;
    }

    /** A new lane begins at the chain's nonce: the highest that its nodes know. */
    private async baseline(): Promise<After> {
        const { nodes, place } = this.loop;
        const keys = await nodes.keys(place);
        const found = keys.filter((key) => key !== 'missing');
        if (keys.length - found.length >= nodes.needed) return this.loop.quarantine('key_missing', { message: `${place.key} is not a key of ${place.account}` });
        if (found.length < nodes.needed) return SOON_MS;
        const top = found.reduce((most, { nonce }) => (nonce > most ? nonce : most), 0n);
        await this.loop.own('baseline', { cursor: (top + 1n).toString(), operator: false });
        return 0;
    }

    /** The key is not where this lane left it. A node that is behind says nothing; enough others stop the lane. */
    private async lost(others: (KeyView | 'missing')[], expected: bigint): Promise<After> {
        const { needed } = this.loop.nodes;
        const ahead = others.filter((key) => key !== 'missing' && key.nonce > expected);
        if (ahead.length >= needed) {
            const [first] = ahead;
            const nonce = first === undefined || first === 'missing' ? '' : first.nonce.toString();
            return this.loop.quarantine('foreign_nonce_use', { chain_nonce: nonce, expected: expected.toString() });
        }
        if (others.filter((key) => key === 'missing').length >= needed) return this.loop.quarantine('key_missing', {});
        return SOON_MS;
    }

    private async compile(entry: EntryRow): Promise<Body | (JsonObject & { code: string })> {
        const { world, place } = this.loop;
        try {
            const body = await compile(entry.kind, objectOf(entry.payload), place.account);
            checkPolicy(body, place.account, world.settings.policy);
            const delegate = delegateOf(body);
            if (delegate !== undefined) {
                await checkSignature(delegate);
                checkDelegatePolicy(delegate, world.settings.policy);
            }
            return body;
        } catch (error) {
            const helps = entry.kind !== 'near.delegate';
            if (!(error instanceof Invalid)) return failure('unprocessable', 'its bytes cannot be processed; nothing was signed', helps);
            const code = error.code === 'own_account_refused' ? error.code : 'invalid_intent';
            return failure(code, error.message, helps, error.field);
        }
    }

    /** A user's delegate that would fail is not paid for, if enough nodes say so. */
    private async checkDelegate(delegate: SignedDelegate): Promise<Refusal | undefined> {
        const { nodes, world } = this.loop;
        const { sender, key } = delegate.delegate;
        const refusals: JsonObject[] = [];
        for (const found of await nodes.keys({ account: sender, key: keyText(key) }, 'optimistic')) {
            try {
                const view = found === 'missing' ? undefined : found;
                if (view !== undefined) checkExpiry(delegate, view.height, world.settings.policy);
                checkDelegateNonce(delegate, view);
                return undefined;
            } catch (error) {
                if (!(error instanceof Invalid)) throw error;
                refusals.push(failure('invalid_intent', error.message, false, error.field));
            }
        }
        const [first] = refusals;
        return first !== undefined && refusals.length >= nodes.needed ? { error: first } : { after: SOON_MS };
    }

    /** More than the whole balance of a lane that has its reserve fails alone; a lane without its reserve pauses. */
    private async checkFunds(actions: readonly Action[]): Promise<Refusal | undefined> {
        const { nodes, world, place } = this.loop;
        const { gasPrice, reserve } = world.settings;
        const inner = actions.flatMap((action) => (action.type === 'delegate' ? action.delegate.actions : [action]));
        const risk = depositAtRisk(actions);
        const deposit = risk >= UNLIMITED ? attachedDeposit(actions) : risk;
        const needs = deposit + (attachedGas(inner) + PLAIN_GAS) * gasPrice;
        const balances = await nodes.balances(place.account);
        const most = balances.reduce((top, one) => (one > top ? one : top), -1n);
        if (most >= needs && most >= reserve) return undefined;
        if (balances.length < nodes.needed) return { after: SOON_MS };
        if (most >= reserve) {
            return { error: { ...failure('insufficient_funds', `needs ${needs} yoctoNEAR, the account has ${most}`, true), needs: needs.toString(), balance: most.toString() } };
        }
        await this.loop.stop('paused', 'insufficient_funds', { balance: most.toString(), reserve: reserve.toString() });
        return { after: 0 };
    }

    private async fail(entry: EntryRow, error: JsonObject): Promise<After> {
        const { id, life } = entry;
        const code = error['code'];
        const item = { id, life, status: 'failed', outcome: packEnd('failed', error), tx_hash: null, nonce: null, error: typeof code === 'string' ? code : null, deaths: {} };
        await this.loop.own('settle', { batch: [item], landed: null });
        this.loop.world.log('failed', { intent: id, error });
        return 0;
    }

    /** The ledger is no authority by itself: what no front sealed is not signed, and the lane goes on. */
    private async setAside(entry: EntryRow, check: string): Promise<After> {
        const hold = `{"reason":"bad_seal","evidence":{"check":"${check}"}}`;
        await this.loop.own('set_aside', { id: entry.id, position: entry.position, reason: 'bad_seal', hold });
        this.loop.world.log('held', { intent: entry.id, reason: 'bad_seal', check });
        return 0;
    }
}

function failure(code: string, message: string, helps: boolean, field?: string): JsonObject & { code: string } {
    const error = { code, message, new_key_helps: helps, spent: '0' };
    return field === undefined ? error : { ...error, field };
}
