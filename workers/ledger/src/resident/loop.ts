/**
 * The loop of a resident lane: one intent at a time, signed once, sent as the same bytes until it is final. Everything that
 * matters is in the store, so it may die at any await; whoever comes next goes on with the same bytes. Each start takes the
 * lane with a new fence: a loop that was overtaken writes nothing and sends nothing more.
 */

import { stringify, type JsonObject } from '../near/exact';
import { parseLane, keyText } from '../near/names';
import { bounded } from './bounds';
import { decide, type Seen } from './decide';
import { First } from './first';
import { Nodes, type Attempt, type Sighting } from './nodes';
import { objectOf, packEnd, packFinal, packOutcome, readAttempt, type LaneView, type RecordRow } from './rows';
import { StepRefused, type World } from './world';

const LEASE_MS = 60_000;
const SOON_MS = 400;
const LATER_MS = 30_000;
const BACKOFF_MS = [500, 1_000, 2_000, 4_000, 8_000];
const RETIRED_AT_ONCE = 16;
/** A lane whose queue is never empty retires, too, when so many wait for it. */
const MOST_UNRETIRED = 64;

/** Milliseconds until the next turn; null: nothing is left to do. */
export type After = number | null;

export interface Turn {
    lane: LaneView;
    pending: RecordRow[];
}

/** Work until nothing is left, another loop took over, or this invocation is used up. */
export async function drive(world: World): Promise<void> {
    try {
        const told = (await world.step('adopt', { token: world.token(), lease_ms: LEASE_MS })) as { word: string; epoch: number; token: string };
        if (told.word !== 'adopted') return;
        await new Loop(world, { epoch: told.epoch, token: told.token }).run();
    } catch (error) {
        if (!(error instanceof StepRefused && error.word === 'fenced')) throw error;
    }
}

export class Loop {
    readonly nodes: Nodes;
    readonly place: { account: string; key: string };
    private readonly first: First;
    private readonly sentAt = new Map<string, number>();
    private readonly replies = new Map<string, { verdict: Seen['verdict']; message: string }>();
    private readonly unproven = new Set<string>();
    private silent = 0;

    constructor(
        readonly world: World,
        private readonly fence: { epoch: number; token: string },
    ) {
        const { account, key } = parseLane(world.lane);
        this.place = { account, key: keyText(key) };
        const { nodes, epochBlocks } = world.settings;
        this.nodes = new Nodes(world.ask, nodes.map(({ direct }) => direct), epochBlocks);
        this.first = new First(this);
    }

    /** One fenced step on the lane. */
    async own<T>(operation: string, args: object = {}): Promise<T> {
        return (await this.world.step(operation, { fence: this.fence, ...args })) as T;
    }

    async run(): Promise<void> {
        for (;;) {
            const after = await this.turn();
            const goesOn = after !== null && after < LATER_MS;
            if (!goesOn || this.world.spent()) {
                await this.own('rest', { after_ms: after });
                return;
            }
            if (after > 0) await this.world.sleep(after);
        }
    }

    private async turn(): Promise<After> {
        const { lane, pending } = await this.own<Turn>('look');
        const asked = lane.command === 'rebaseline' || lane.command === 'rebaseline_paused';
        if (lane.state === 'paused' && asked) return this.rebaseline(lane);
        if (lane.history_id !== lane.found_history_id && lane.state !== 'quarantined') {
            return this.quarantine('ledger_rolled_back', { stored: lane.history_id, found: lane.found_history_id });
        }
        let after: After = null;
        for (const record of inOrder(pending)) {
            const one = await this.observe(lane, record);
            if (one === 0) return 0;
            after = after === null || (one !== null && one < after) ? one : after;
        }
        if (pending.length > 0) {
            const held = pending.some(({ status }) => status === 'held');
            if (held && (lane.state === 'active' || lane.state === 'draining')) await this.pauseForHold(pending);
            return after;
        }
        return this.next(lane);
    }

    private async next(lane: LaneView): Promise<After> {
        if (lane.state === 'paused' && lane.cause === 'held') return this.resume();
        if (lane.state === 'paused' && lane.cause === 'insufficient_funds') {
            const [most] = (await this.nodes.balances(this.place.account)).sort((one, other) => (one > other ? -1 : 1));
            return most !== undefined && most >= this.world.settings.reserve ? this.resume() : LATER_MS;
        }
        const works = lane.state === 'active' || lane.state === 'draining';
        if (lane.unretired >= MOST_UNRETIRED) {
            await this.retire().catch((error: unknown) => {
                // a home that is away must not keep the lane from signing
                this.world.log('not retired', { lane: this.world.lane, error: error instanceof Error ? error.message.slice(0, 300) : 'unknown' });
            });
        }
        const after = works ? await this.first.sign(lane) : null;
        return after ?? this.retire();
    }

    // -- what is in flight

    private async observe(lane: LaneView, record: RecordRow): Promise<After> {
        const row = record.attempts.find(({ purpose }) => purpose !== 'noop');
        if (row === undefined) return null;
        const attempt = readAttempt(row);
        const fresh = this.first.signed === attempt.hash && !this.sentAt.has(attempt.hash);
        const found: Sighting | undefined = fresh
            ? { where: 'unknown', doubt: null }
            : await this.nodes.lookUp(this.place.account, record.kind, objectOf(record.payload), attempt);
        if (found === undefined) return this.backOff();
        if (!fresh) this.silent = 0;
        const step = decide(this.seen(record, attempt, found, null), this.patience);
        if (objectOf(record.directive)['verb'] === 'track') await this.own('answer', { id: record.id, life: record.life });
        if (step.do === 'prove') return this.prove(record, attempt, found);
        return this.carryOut(lane, record, attempt, found, step, null);
    }

    private async prove(record: RecordRow, attempt: Attempt, found: Sighting): Promise<After> {
        const proof = await this.nodes.proveDead(this.place, attempt);
        if (proof === undefined) this.unproven.add(attempt.hash);
        const seen = this.seen(record, attempt, found, proof ?? null);
        const lane = (await this.own<Turn>('look')).lane;
        const after = await this.carryOut(lane, record, attempt, found, decide(seen, this.patience), proof ?? null);
        this.replies.delete(attempt.hash); // its word was weighed: the next send asks again
        this.unproven.delete(attempt.hash);
        return after;
    }

    private get patience(): { includeWithinMs: number; holdAfterMs: number } {
        return this.world.settings;
    }

    private seen(record: RecordRow, attempt: Attempt, found: Sighting, proof: JsonObject | null): Seen {
        const sent = this.sentAt.get(attempt.hash);
        const now = this.world.now();
        const [cause, verb] = [proof?.['cause'], objectOf(record.directive)['verb']];
        return {
            held: record.status === 'held',
            cancelled: record.cancel_requested === 1,
            verb: typeof verb === 'string' ? verb : '',
            where: found.where,
            doubt: found.doubt,
            proof: typeof cause === 'string' ? cause : null,
            unproven: this.unproven.has(attempt.hash),
            verdict: this.replies.get(attempt.hash)?.verdict ?? null,
            sentAgoMs: sent === undefined ? null : now - sent,
            ageMs: now - attempt.signedAt,
        };
    }

    private async carryOut(
        lane: LaneView,
        record: RecordRow,
        attempt: Attempt,
        found: Sighting,
        step: ReturnType<typeof decide>,
        proof: JsonObject | null,
    ): Promise<After> {
        const { message = '' } = this.replies.get(attempt.hash) ?? {};
        const evidence: JsonObject = { nonce: attempt.nonce, hash: attempt.hash, message, ...(proof ?? {}) };
        switch (step.do) {
            case 'settle':
                if (found.outcome === undefined) return this.backOff();
                return this.settle(record, bounded(found.outcome));
            case 'end':
                return this.end(record, attempt, step.as, proof);
            case 'send':
                // what a quarantined lane holds may be somebody else's doing: nothing goes out
                return lane.state === 'quarantined' ? LATER_MS : this.send(attempt);
            case 'hold': {
                const hold = stringify({ reason: step.reason, evidence });
                await this.own('hold', { id: record.id, life: record.life, reason: step.reason, hold });
                this.world.log('held', { intent: record.id, reason: step.reason, ...evidence });
                return 0;
            }
            case 'pause':
                if (lane.state === 'active' || lane.state === 'draining') await this.stop('paused', 'insufficient_funds', evidence);
                return this.send(attempt);
            case 'quarantine':
                return this.quarantine('key_missing', evidence);
            case 'prove':
            case 'wait':
                return record.status === 'held' || lane.state === 'quarantined' ? LATER_MS : SOON_MS;
        }
    }

    /** Only the owner of this moment sends; the bytes are durable, so a kill at the first of them loses nothing. */
    private async send(attempt: Attempt): Promise<After> {
        await this.own('renew', { lease_ms: LEASE_MS });
        const began = this.world.now();
        this.sentAt.set(attempt.hash, began);
        const reply = await this.nodes.send(attempt.raw);
        this.replies.set(attempt.hash, reply);
        const took = Math.max(0, this.world.now() - began);
        await this.own('count', { send_ms: took, invalid_nonce: reply.verdict === 'nonce_too_low' });
        if (reply.verdict === 'accepted') return 0;
        this.world.log('not accepted', { hash: attempt.hash, verdict: reply.verdict, message: reply.message });
        if (['unavailable', 'rate_limited', 'busy', 'unknown'].includes(reply.verdict)) {
            this.sentAt.delete(attempt.hash); // perhaps it never left: send again after a pause
            return this.backOff();
        }
        return SOON_MS;
    }

    private async settle(record: RecordRow, outcome: ReturnType<typeof bounded>): Promise<After> {
        const { status, tx_hash, nonce, error } = outcome;
        const code = error?.['code'];
        const item = { id: record.id, life: record.life, status, outcome: packOutcome(outcome), tx_hash, nonce, error: typeof code === 'string' ? code : null, deaths: {} };
        await this.own('settle', { batch: [item], landed: nonce });
        this.world.log(status, { intent: record.id, hash: tx_hash });
        return 0;
    }

    private async end(record: RecordRow, attempt: Attempt, status: 'cancelled' | 'failed', proof: JsonObject | null): Promise<After> {
        const error = { code: 'rejected', message: 'ended by an operator', new_key_helps: true, spent: '0' };
        const outcome = packEnd(status, status === 'failed' ? error : null);
        const deaths = { [`${attempt.nonce}:${attempt.hash}`]: stringify(proof) };
        const item = { id: record.id, life: record.life, status, outcome, tx_hash: null, nonce: null, error: status === 'failed' ? 'rejected' : null, deaths };
        await this.own('settle', { batch: [item], landed: null });
        this.world.log(status, { intent: record.id, proof });
        return 0;
    }

    private backOff(): After {
        const after = BACKOFF_MS[Math.min(this.silent, BACKOFF_MS.length - 1)] ?? LATER_MS;
        this.silent += 1;
        return after;
    }

    // -- the lane

    async quarantine(cause: string, evidence: JsonObject): Promise<After> {
        await this.stop('quarantined', cause, evidence);
        return LATER_MS;
    }

    async stop(state: 'paused' | 'quarantined', cause: string, evidence: JsonObject, reason = cause): Promise<After> {
        await this.own('set_lane', { state, reason, cause, command: '', evidence: stringify(evidence) });
        this.world.log(state, { lane: this.world.lane, cause, evidence });
        return LATER_MS;
    }

    private async pauseForHold(pending: RecordRow[]): Promise<void> {
        const held = pending.find(({ status }) => status === 'held');
        if (held === undefined) return;
        const why = objectOf(held.hold)['reason'];
        const key = held.id.split('/').slice(2).join('/');
        await this.stop('paused', 'held', { intent: held.id }, `held: ${key} (${typeof why === 'string' ? why : ''})`);
    }

    private async resume(): Promise<After> {
        await this.own('set_lane', { state: 'active', reason: '', cause: '', command: '', evidence: '{}' });
        this.world.log('active', { lane: this.world.lane });
        return 0;
    }

    /** Go on from the chain's nonce: an operator vouches for what happened. */
    private async rebaseline(lane: LaneView): Promise<After> {
        const keys = (await this.nodes.keys(this.place)).filter((key) => key !== 'missing');
        const top = keys.reduce((most, { nonce }) => (nonce > most ? nonce : most), -1n);
        if (keys.length < this.nodes.needed) return this.backOff();
        await this.own('baseline', { cursor: (top + 1n).toString(), operator: true });
        await this.own('vouch', { stored: lane.history_id, found: lane.found_history_id });
        this.world.log('rebaselined', { lane: this.world.lane, cursor: (top + 1n).toString() });
        if (lane.command === 'rebaseline') return this.resume();
        await this.stop('paused', 'rebaselined', {}, 'rebaselined; resume it once its queue is compared with the chain');
        return 0;
    }

    /** Final records go to their homes first, durably, and only then leave the lane. */
    private async retire(): Promise<After> {
        const rows = (await this.world.step('unretired', { count: RETIRED_AT_ONCE })) as RecordRow[];
        if (rows.length === 0) return null;
        const byHome = new Map<number, object[]>();
        const records: object[] = [];
        for (const row of rows) {
            const { id, life, status } = row;
            try {
                const { object, final } = packFinal(row, this.world.lane);
                byHome.set(object, [...(byHome.get(object) ?? []), final]);
                records.push({ id, life, status });
            } catch (error) {
                // one that cannot be read any more must not keep the others here
                const why = error instanceof Error ? error.message.slice(0, 300) : 'unknown';
                await this.world.step('shelve', { id, error: why });
                this.world.log('shelved', { intent: id, error: why });
            }
        }
        const { retentionMs } = this.world.settings;
        for (const [object, finals] of byHome) await this.world.home(object, 'retire', { finals, keep_ms: retentionMs });
        await this.world.step('bury', { records, keep_ms: retentionMs });
        return rows.length < RETIRED_AT_ONCE ? null : 0;
    }
}

function inOrder(pending: RecordRow[]): RecordRow[] {
    const nonce = ({ attempts }: RecordRow) => BigInt(attempts[0]?.nonce ?? '0');
    return [...pending].sort((one, other) => (nonce(one) < nonce(other) ? -1 : 1));
}
