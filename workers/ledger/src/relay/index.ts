/**
 * The front of resident lanes: the same `/v1` as the Python API has, for what a resident serves. It has no key and signs
 * nothing; it reaches the signing script over a service binding.
 */

import { stringify, type JsonObject } from '../near/exact';
import { Fields, isObject } from '../near/fields';
import { Invalid } from '../near/invalid';
import { Seals } from '../resident/seal';
import { readSettings, type Shared } from '../resident/settings';
import { Accepting, type Signing } from './accept';
import { metrics } from './metrics';
import { Problem, answer } from './problems';
import { isFinal, laneJson, recordJson, type LaneRow, type Stored } from './records';
import { Streams } from './streams';
import { poolFor, readBody, split, submit } from './submit';
import { admit, checkPool, need, readTokens, type Caller } from './tokens';

const MAX_WAIT_S = 60;
const PATHS: Readonly<Record<string, string>> = {
    '/v1/near/accounts': 'near.create_account',
    '/v1/near/delegate-actions': 'near.delegate',
    '/v1/near/transactions': 'near.transaction',
    '/v1/near/recoveries': 'near.recovery',
};
/** What each verb makes of a lane. */
const VERBS: Readonly<Record<string, { state: string; reason: string; cause: string; command: string }>> = {
    pause: { state: 'paused', reason: 'paused by an operator', cause: 'operator', command: '' },
    resume: { state: 'active', reason: '', cause: '', command: '' },
    drain: { state: 'draining', reason: '', cause: '', command: '' },
    close: { state: 'closed', reason: '', cause: '', command: '' },
    rebaseline: { state: 'paused', reason: 'rebaseline', cause: '', command: 'rebaseline' },
};

export interface FrontEnv {
    SIGNING: Signing;
    SETTINGS: string;
    TOKENS: string;
    SEAL: string;
}

class Front {
    private constructor(
        private readonly shared: Shared,
        private readonly accepting: Accepting,
        private readonly signing: Signing,
        private readonly caller: Caller,
        private readonly request: Request,
        private readonly url: URL,
    ) {}

    static async answer(request: Request, env: FrontEnv): Promise<Response> {
        const url = new URL(request.url);
        if (url.pathname === '/healthz') return json('{"status":"ok"}');
        const caller = await admit(request, readTokens(env.TOKENS));
        const accepting = new Accepting(env.SIGNING, await Seals.open(env.SEAL));
        const front = new Front(readSettings(env.SETTINGS), accepting, env.SIGNING, caller, request, url);
        await front.draw();
        return front.route();
    }

    /** A token's rate holds for all isolates together. */
    private async draw(): Promise<void> {
        const { name, perSecond, burst } = this.caller;
        if (perSecond === null) return;
        const args = { name, per_second: perSecond, burst, want: 1 };
        const { granted, wait_ms } = await this.accepting.step<{ granted: number; wait_ms: number }>('registry', 'rates-0', 'draw', args);
        if (granted < 1) throw new Problem('quota_used', `token '${name}' may send ${perSecond} requests a second`, { retryAfterS: Math.ceil(wait_ms / 1000) });
    }

    private async route(): Promise<Response> {
        const { pathname } = this.url;
        const kind = PATHS[pathname];
        if (kind !== undefined || pathname === '/v1/intents') return this.submit(kind);
        if (pathname === '/metrics') return this.get(async () => metrics(await this.lanes()));
        if (pathname === '/readyz') return this.get(async () => json(stringify({ status: 'ok', lanes: BigInt((await this.lanes()).length) })));
        if (pathname === '/v1/lanes') return this.get(async () => json(stringify({ lanes: (await this.lanes()).map(laneJson) })));
        const [, thing, ...rest] = pathname.split('/').slice(1).map(decodeURIComponent);
        const verb = rest.at(-1) ?? '';
        const isVerb = this.request.method === 'POST';
        if (!isVerb && rest.length === 2 && verb === 'events') {
            if (thing === 'intents') return this.get(() => this.follow(rest[0] ?? ''));
            if (thing === 'pools') return this.get(() => Promise.resolve(this.followPool(rest[0] ?? '')));
        }
        const name = (isVerb ? rest.slice(0, -1) : rest).join('/');
        if (pathname.startsWith('/v1/intents/') && thing === 'intents' && name !== '') return this.intent(name, isVerb ? verb : null);
        if (pathname.startsWith('/v1/lanes/') && thing === 'lanes' && name !== '') return this.lane(name, isVerb ? verb : null);
        throw new Problem('no_route', `there is no ${pathname.slice(0, 200)}`);
    }

    private async get(read: () => Promise<Response>): Promise<Response> {
        if (this.request.method !== 'GET') throw new Problem('method_not_allowed', 'only GET is possible here');
        need(this.caller, 'read');
        return read();
    }

    private async submit(path: string | undefined): Promise<Response> {
        if (this.request.method !== 'POST') throw new Problem('method_not_allowed', 'only POST is possible here');
        need(this.caller, 'submit');
        const waitS = this.waitS();
        const { body, size } = await readBody(this.request);
        const asked = path === undefined ? envelopeOf(body) : { kind: path, ...split(renamed(path, body)) };
        const { record, replayed } = await submit(this.accepting, this.shared, this.caller, { ...asked, size, key: this.givenKey() });
        const found = await this.wait(record, waitS);
        const status = replayed || (waitS > 0 && isFinal(found)) ? 200 : 202;
        return json(recordJson(found), status, replayed ? { 'idempotency-replayed': 'true' } : {});
    }

    private givenKey(): string | null {
        const key = this.request.headers.get('idempotency-key');
        if (key !== null && !/^[\x21-\x7e]{1,255}$/.test(key)) {
            throw new Invalid('Idempotency-Key', 'must be 1 to 255 visible ASCII characters without spaces (a UUID)', 'invalid_idempotency_key');
        }
        return key;
    }

    private waitS(): number {
        const text = this.url.searchParams.get('wait') ?? '0';
        const seconds = parseFloat(text);
        if (!/^[0-9]+(\.[0-9]+)?$/.test(text)) throw new Invalid('wait', `must be 0 to ${MAX_WAIT_S} seconds`);
        return Math.min(seconds, MAX_WAIT_S);
    }

    private async wait(record: Stored, seconds: number): Promise<Stored> {
        const until = Date.now() + seconds * 1000;
        let found = record;
        while (!isFinal(found) && Date.now() < until) {
            const before = Date.now();
            try {
                await this.signing.settled(found.lane, found.id, until - before);
                found = (await this.accepting.read(found.id)) ?? found;
            } catch {
                // away for a moment: trouble leaves the last known record
            }
            const pause = Math.min(200, until - Date.now());
            if (!isFinal(found) && Date.now() - before < 200 && pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
        }
        return found;
    }

    private async find(key: string): Promise<Stored> {
        const pool = poolFor(this.shared, this.caller, this.url.searchParams.get('pool'));
        const record = await this.accepting.read(`${this.caller.tenant}/${pool.name}/${key}`);
        if (record === undefined) throw new Problem('not_found', `no intent '${key}'; it was never accepted, or its retention is over`);
        return record;
    }

    private async follow(key: string): Promise<Response> {
        return new Streams(this.accepting, this.signing).intent(await this.find(key), this.lastId());
    }

    private followPool(name: string): Response {
        const pool = poolFor(this.shared, this.caller, name);
        return new Streams(this.accepting, this.signing).pool(pool.lanes, `${this.caller.tenant}/${pool.name}/`, this.lastId());
    }

    private lastId(): string | null {
        return this.request.headers.get('last-event-id') ?? this.url.searchParams.get('last_event_id');
    }

    private async intent(key: string, verb: string | null): Promise<Response> {
        need(this.caller, ...(verb === null ? ['read'] : verb === 'cancel' ? ['submit', 'operate'] : ['operate']));
        const record = await this.find(key);
        if (verb === null) return json(recordJson(await this.wait(record, this.waitS())));
        if (verb === 'cancel') return this.cancel(record);
        if (verb === 'resolve') return this.resolve(record);
        throw new Problem('no_route', `there is no ${verb}`);
    }

    private async cancel(record: Stored): Promise<Response> {
        const outcome = stringify({ status: 'cancelled', tx_hash: null, nonce: null, result: null, error: null });
        const { id, life, lane } = record;
        const asked = !isFinal(record) && (await this.accepting.step<boolean>('lane', lane, 'cancel', { id, life, outcome }));
        const found = (await this.accepting.read(id)) ?? record;
        if (!asked && found.status !== 'cancelled') throw new Problem('not_allowed', `the intent is ${found.status} already; its result stands`);
        return json(recordJson(found));
    }

    /** An operator's word on a held intent. A resident never signs again, so two of the four verbs have no meaning here. */
    private async resolve(record: Stored): Promise<Response> {
        const { body } = await readBody(this.request);
        const verb = new Fields(body).text('verb');
        if (verb !== 'track' && verb !== 'fail') throw new Invalid('verb', 'a resident lane takes track and fail; it never signs again');
        const directive = stringify({ verb, by: this.caller.name });
        const { id, life, lane } = record;
        const asked = !isFinal(record) && (await this.accepting.step<boolean>('lane', lane, 'resolve', { id, life, directive }));
        if (!asked) throw new Problem('not_allowed', `the intent is ${record.status}, only a held one can be resolved`);
        return json(recordJson((await this.accepting.read(id)) ?? record));
    }

    private async lanes(): Promise<LaneRow[]> {
        const found: LaneRow[] = [];
        for (const pool of this.shared.pools.values()) {
            if (this.caller.pools?.includes(pool.name) === false) continue;
            for (const lane of pool.lanes) {
                const row = await this.accepting.step<LaneRow | null>('lane', lane, 'lane', {});
                if (row !== null) found.push(row);
            }
        }
        return found;
    }

    private async lane(id: string, verb: string | null): Promise<Response> {
        need(this.caller, verb === null ? 'read' : 'operate');
        const row = await this.accepting.step<LaneRow | null>('lane', id, 'lane', {});
        const known = [...this.shared.pools.values()].some(({ lanes }) => lanes.includes(id));
        if (row === null || !known) throw new Problem('not_found', `no lane ${id.slice(0, 255)}`);
        checkPool(this.caller, row.pool);
        if (verb === null) return json(stringify(laneJson(row)));
        const wanted = VERBS[verb];
        if (wanted === undefined) throw new Problem('no_route', `there is no ${verb}`);
        type Moved = LaneRow & { weight: number; revision: number };
        const moved = await this.accepting.step<Moved>('lane', id, 'set_lane', { ...wanted, evidence: '{}', fence: null });
        const { pool, weight, state, revision } = moved;
        await this.accepting.step('registry', 'lanes', 'publish', { lane: id, pool, weight, state, revision });
        return json(stringify(laneJson(moved)));
    }
}

function envelopeOf(body: JsonObject): { kind: string; payload: JsonObject; envelope: JsonObject } {
    const { kind, payload, ...envelope } = body;
    if (typeof kind !== 'string') throw new Invalid('kind', 'Field required');
    if (!isObject(payload)) throw new Invalid('payload', 'Field required');
    return { kind, payload, envelope };
}

/** `new_public_key` is what others call the key of a new account. */
function renamed(path: string, body: JsonObject): JsonObject {
    if (path !== 'near.create_account' || body['new_public_key'] === undefined || body['public_key'] !== undefined) return body;
    return Object.fromEntries(Object.entries(body).map(([name, value]) => [name === 'new_public_key' ? 'public_key' : name, value]));
}

function json(text: string, status = 200, headers: Record<string, string> = {}): Response {
    return new Response(text, { status, headers: { 'content-type': 'application/json', ...headers } });
}

export default {
    async fetch(request, env) {
        try {
            return await Front.answer(request, env);
        } catch (error) {
            if (error instanceof Problem) return answer(error);
            if (error instanceof Invalid) return answer(new Problem(error.code, error.message, { field: error.field }));
            // eslint-disable-next-line no-console -- the log of this script; callers see no words of ours
            console.error(stringify({ event: 'unexpected', error: error instanceof Error ? error.message.slice(0, 300) : 'unknown' }));
            return answer(new Problem('error', ''));
        }
    },
} satisfies ExportedHandler<FrontEnv>;
