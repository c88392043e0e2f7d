/**
 * `DurableObjectTxManager`: a lane that owns itself. Whatever gives it work sets its alarm in the same transaction, so a
 * kill at any moment loses neither the work nor the waking. Nothing that matters is in memory: two processes may serve the
 * same disk, and the fence lets one of them send.
 */

import type { Role } from '../object';
import { Lane } from '../lane/index';
import { readLane, type Step } from '../lane/row';
import { parse, stringify, type JsonObject } from '../near/exact';
import { isObject } from '../near/fields';
import { keyText, parseLane } from '../near/names';
import { Signer } from '../near/transaction';
import { drive } from './loop';
import { http } from './rpc';
import { Seals } from './seal';
import { poolOf, readSettings, type Shared } from './settings';
import { readAnswer, stepOn } from './stubs';
import type { World } from './world';

const AFTER_FAILURE_MS = 2_000;
const HINT_MS = 1_000;

export interface SignerEnv {
    SETTINGS: string;
    /** Secret: `{"ed25519:PUBLIC": "ed25519:PRIVATE"}`. */
    KEYS: string;
    /** Secret: what the front seals with; two with a space between them while one is replaced. */
    SEAL: string;
}

export class DurableObjectTxManager extends Lane {
    private running: Promise<void> | undefined;
    private isWoken = false;
    private waiting = new Set<() => void>();

    override run(role: Role, calls: Parameters<Lane['run']>[1]): ReturnType<Lane['run']> {
        const answers = super.run(role, calls);
        if (this.isWoken && this.running === undefined) this.ctx.waitUntil(this.start());
        this.isWoken = false;
        return answers;
    }

    protected override step(name: string, args: unknown, role: Role, request: string, now: number): unknown {
        const answer = super.step(name, args, role, request, now);
        // in the transaction that saw what is left: an append comes before it, or sets an alarm of its own
        if (name === 'rest') void (answer === null ? this.ctx.storage.deleteAlarm() : this.ctx.storage.setAlarm(answer as number));
        return answer;
    }

    protected override woken({ lane, now }: Step, by: Role): void {
        if (lane.resident !== 1 || by === 'resident') return;
        void this.ctx.storage.setAlarm(now);
        this.isWoken = true;
    }

    protected override told(hints: string[]): void {
        super.told(hints);
        for (const wake of this.waiting) wake();
    }

    override async alarm(): Promise<void> {
        // first of all: should this one die, the next one comes
        await this.ctx.storage.setAlarm(this.now() + this.shared.alarmMs);
        while (this.running !== undefined) await this.running;
        await this.start();
    }

    /** Something is there to do, perhaps while nobody is awake for it. */
    poke(): void {
        const lane = this.exists() ? readLane(this.sql) : undefined;
        if (lane?.resident === 1 && lane.depth + lane.unretired > 0) void this.ctx.storage.setAlarm(this.now());
    }

    /** Until the intent has left the lane or ended, or the time is over. The caller reads then. */
    async settled(id: string, ms: number): Promise<void> {
        const until = this.now() + ms;
        while (this.now() < until) {
            const query = "SELECT 1 AS n FROM records WHERE id = ? AND status NOT IN ('done', 'failed', 'cancelled')";
            if (!this.exists() || this.sql.one(query, id) === undefined) return;
            await new Promise<void>((resolve) => {
                const wake = () => {
                    clearTimeout(timer);
                    this.waiting.delete(wake);
                    resolve();
                };
                const timer = setTimeout(wake, Math.min(HINT_MS, Math.max(1, until - this.now())));
                this.waiting.add(wake);
            });
        }
    }

    private start(): Promise<void> {
        this.running = this.work().finally(() => {
            this.running = undefined;
        });
        return this.running;
    }

    private async work(): Promise<void> {
        const lane = this.exists() ? readLane(this.sql) : undefined;
        if (lane?.resident !== 1) return;
        try {
            await drive(await this.world(lane.id));
        } catch (error) {
            this.log('stopped', { lane: lane.id, error: error instanceof Error ? error.message.slice(0, 300) : 'unknown' });
            await this.ctx.storage.setAlarm(this.now() + AFTER_FAILURE_MS);
        }
    }

    private get shared(): Shared {
        return readSettings((this.env as unknown as SignerEnv).SETTINGS);
    }

    private async world(lane: string): Promise<World> {
        const { shared } = this;
        const secrets = this.env as unknown as SignerEnv;
        const pool = poolOf(shared, lane);
        if (pool === undefined) throw new Error(`SETTINGS name no pool of ${lane}`);
        const place = parseLane(lane);
        const keys = parse(secrets.KEYS);
        const secret = isObject(keys) ? keys[keyText(place.key)] : undefined;
        if (typeof secret !== 'string') throw new Error(`KEYS hold no key of ${lane}`);
        const [until, began] = [this.now() + shared.runMs, { requests: 0 }];
        const counted = () => {
            began.requests += 1;
        };
        return {
            lane,
            settings: pool.settings,
            signer: await Signer.open(place, secret),
            seals: await Seals.open(secrets.SEAL),
            step: (operation, args) => Promise.resolve(this.own(operation, args)),
            home: async (number, operation, args) => {
                counted();
                const home = this.env.HOME.get(this.env.HOME.idFromName(`${shared.prefix}/${number}`));
                return stepOn(home, 'owner', operation, args);
            },
            ask: http(pool.settings.nodes.map(({ url }) => url), counted),
            now: () => this.now(),
            sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
            token: () => crypto.randomUUID(),
            // a turn that begins needs about ten requests at most
            spent: () => this.now() >= until || began.requests + 10 >= shared.requests,
            log: (what, more) => { this.log(what, more); },
        };
    }

    private own(operation: string, args: object): unknown {
        const [answer] = this.run('resident', [{ operation, args, request: crypto.randomUUID() }]);
        return readAnswer(answer ?? { error: 'unavailable', told: {} });
    }

    private log(what: string, more: JsonObject): void {
        // eslint-disable-next-line no-console -- a line for each transition: this is the script's log
        console.log(stringify({ event: what, ...more }));
    }
}
