/**
 * Accepting: route, claim at the key's home, append at the lane. Whatever dies between two steps, the next call with the same
 * key goes on. An answer means durable; `unavailable` means unknown, and the same key finds out.
 */

import { hex, utf8 } from '../near/bytes';
import { stringify, type JsonObject } from '../near/exact';
import { objectOf, type RecordRow } from '../resident/rows';
import { choose, homeOf } from '../resident/router';
import type { Seals } from '../resident/seal';
import type { Answer } from '../object';
import type { Wanted } from '../resident/signer';
import { Problem } from './problems';
import { ofHome, ofLane, type Stored } from './records';
import type { Caller } from './tokens';

const HOME_OBJECTS = 16;
/** Claim, append and move can each be overtaken by others a few times; for ever means that something is wrong. */
const TRIES = 6;
const ALIASES = 8;
const OVERHEAD_BYTES = 1024;

/** The signing script, as the front sees it. */
export interface Signing {
    call: (wanted: Wanted) => Promise<Answer>;
    settled: (lane: string, id: string, ms: number) => Promise<void>;
    open: () => Promise<number>;
}

export interface Route {
    lane: string;
    pool: string;
    weight: number;
    state: string;
}

interface Home {
    word: string;
    lane: string;
    life: string;
    born: number;
    record: string | null;
    fingerprint: string;
    alias_of: string | null;
}

interface Appended {
    word: string;
    at?: number;
    depth?: number;
    room?: { count: number; size: number };
}

export interface Intent {
    id: string;
    pool: string;
    kind: string;
    payload: string;
    fingerprint: string;
    partitionKey: string;
    maxAgeS: number | null;
    metadata: JsonObject;
    caller: Caller;
    size: number;
}

export class Accepting {
    constructor(
        private readonly signing: Signing,
        private readonly seals: Seals,
    ) {}

    async step<T>(object: Wanted['object'], name: string, operation: string, args: object): Promise<T> {
        const answer = await this.signing.call({ object, name, operation, args }).catch((): Answer => ({ error: 'unavailable', told: {} }));
        if ('ok' in answer) return answer.ok as T;
        if (answer.error === 'not_found') throw new Problem('not_found', 'no such intent or lane');
        if (['not_from', 'busy', 'closed', 'other_sort'].includes(answer.error)) {
            throw new Problem('not_allowed', `the lane is ${String(answer.told['state'] ?? answer.error)}`);
        }
        throw new Problem('unavailable', 'the ledger did not answer');
    }

    home<T>(id: string, operation: string, args: object): Promise<T> {
        return this.step('home', String(homeOf(id) % HOME_OBJECTS), operation, args);
    }

    async routes(): Promise<Route[]> {
        return this.step<Route[]>('registry', 'lanes', 'routes', {});
    }

    async read(id: string): Promise<Stored | undefined> {
        let seen = '';
        for (let tries = 0; tries < ALIASES; tries++) {
            const home = await this.home<Home | null>(id, 'read', { id });
            if (home === null) return undefined;
            if (home.alias_of !== null) {
                id = home.alias_of;
                continue;
            }
            if (home.record !== null) return ofHome(id, { ...home, record: home.record });
            const row = await this.step<RecordRow | null>('lane', home.lane, 'record', { id, life: home.life });
            if (row !== null) return ofLane(row, home.lane);
            if (seen === home.life + home.lane) return undefined;
            seen = home.life + home.lane; // retired between the two reads: the home knows now
        }
        return undefined;
    }

    /** A caller's own key for what is claimed under the key that its payload implies; bound before that one is claimed. */
    async alias(id: string, fingerprint: string, target: string): Promise<void> {
        const told = await this.home<Home>(id, 'alias', { id, slot: homeOf(id), fingerprint, target });
        if (told.word !== 'alias' || told.alias_of !== target) throw reused(id);
    }

    /** The record of a key that was accepted with this same payload. */
    async replay({ id, fingerprint }: Intent): Promise<Stored | undefined> {
        const found = await this.read(id);
        return found?.fingerprint === fingerprint ? found : undefined;
    }

    async submit(intent: Intent): Promise<{ record: Stored; replayed: boolean }> {
        const avoid = new Set<string>();
        for (let tries = 0; tries < TRIES; tries++) {
            const lane = await this.route(intent, avoid);
            const life = hex(crypto.getRandomValues(new Uint8Array(8)));
            const wish = { id: intent.id, slot: homeOf(intent.id), fingerprint: intent.fingerprint, lane, life };
            const [told] = await this.home<Home[]>(intent.id, 'claim', { claims: [wish] });
            if (told === undefined) throw new Problem('unavailable', 'the ledger did not answer');
            if (told.word === 'conflict' || told.word === 'alias') throw reused(intent.id);
            if (told.word === 'final' && told.record !== null) return { record: ofHome(intent.id, { ...told, record: told.record }), replayed: true };
            const done = await this.append(intent, told, avoid);
            if (done !== undefined) return done;
        }
        throw new Problem('stale_claim', 'the key did not settle on a lane in time');
    }

    private async route({ pool, partitionKey }: Intent, avoid: Set<string>): Promise<string> {
        let routes = await this.routes();
        if (!routes.some((route) => route.pool === pool)) {
            await this.signing.open(); // the first call of an installation
            routes = await this.routes();
        }
        const active = routes.filter((route) => route.pool === pool && route.state === 'active' && !avoid.has(route.lane));
        const lane = choose(active.map((route) => ({ name: route.lane, weight: route.weight })), partitionKey);
        if (lane === undefined) throw new Problem('no_lane', `pool '${pool}' has no active lane; resume a lane. Nothing was accepted.`);
        return lane;
    }

    /** undefined: claim again. */
    private async append(intent: Intent, { lane, life, born }: Home, avoid: Set<string>): Promise<{ record: Stored; replayed: boolean } | undefined> {
        const { id, kind, fingerprint, payload, caller } = intent;
        const charge = { owner: caller.name, size: intent.size + OVERHEAD_BYTES, most: caller.maxQueued, most_bytes: caller.maxQueuedBytes };
        const more = await this.more(intent, life, lane);
        const entry = { id, life, born, kind, fingerprint, more, payload, use: null, charge };
        const [told] = await this.step<Appended[]>('lane', lane, 'append', { entries: [entry] });
        switch (told?.word) {
            case 'appended': {
                const at = told.at ?? 0;
                const ends = { outcome: null, hold: null, attempts: [] };
                const record = { id, lane, life, fingerprint, kind, status: 'queued', created: at, updated: at, more: objectOf(more), ...ends };
                return { record, replayed: false };
            }
            case 'exists': {
                const record = await this.read(id);
                return record === undefined ? undefined : { record, replayed: true };
            }
            case 'full':
                throw new Problem('queue_full', `lane ${lane} has ${told.depth ?? 0} intents waiting; nothing was accepted, retry the same key later`);
            case 'no_room':
                throw new Problem('token_queue_full', `'${caller.name}' has ${told.room?.count ?? 0} intents waiting and may have no more; nothing was accepted`);
            case 'closed': {
                avoid.add(lane);
                const other = await this.route(intent, avoid);
                await this.home(id, 'move', { id, life, from: lane, to: other });
                return undefined;
            }
            case 'retired': {
                const record = await this.read(id);
                return record === undefined ? undefined : { record, replayed: true };
            }
            default:
                return undefined; // stale, ahead, another life: the claim is made again
        }
    }

    private async more(intent: Intent, life: string, lane: string): Promise<string> {
        const { id, kind, fingerprint, payload, maxAgeS } = intent;
        const seal = await this.seals.seal({ id, kind, fingerprint, life, lane, max_age_s: maxAgeS, payload });
        const key = id.split('/').slice(2).join('/');
        return stringify({
            ...(Object.keys(intent.metadata).length > 0 ? { metadata: intent.metadata } : {}),
            ...(maxAgeS === null ? {} : { max_age_s: BigInt(maxAgeS) }),
            ...(intent.partitionKey === key ? {} : { partition_key: intent.partitionKey }),
            token: intent.caller.name,
            seal,
        });
    }
}

function reused(id: string): Problem {
    const key = id.split('/').slice(2).join('/');
    return new Problem('idempotency_key_reused', `idempotency key '${key}' was used before with another payload; the first request stands unchanged. Use a new key for a new request.`);
}

/** How many bytes a request has: what a token may have waiting is counted in them. */
export function sizeOf(body: string): number {
    return utf8(body).length;
}
