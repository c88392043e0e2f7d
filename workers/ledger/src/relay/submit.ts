/** From a request to an intent: who asks, for what, under which key; everything is checked before anything is accepted. */

import { base64 } from '../near/bytes';
import { encodeSigned } from '../near/actions';
import { checkSignature, senderKey } from '../near/delegate';
import { parseExact, stringify, type JsonObject } from '../near/exact';
import { Fields, isObject } from '../near/fields';
import { Invalid } from '../near/invalid';
import { KINDS, compile, delegateOf } from '../near/payload';
import { checkDelegatePolicy, checkPolicy, depositAtRisk, ownEffects, receiversOf } from '../near/policy';
import { fingerprint } from '../resident/fingerprint';
import type { Pool, Shared } from '../resident/settings';
import { sizeOf, type Accepting, type Intent } from './accept';
import { Problem } from './problems';
import type { Stored } from './records';
import { checkEffects, checkKind, checkPool, type Caller } from './tokens';

const ENVELOPE = ['pool', 'partition_key', 'max_age_s', 'metadata', 'budget_key'];
const RESERVED = ['create:', 'recovery:', 'delegate:', 'raw:', 'top-up:'];
const MAX_METADATA = 4096;
const YEAR_S = 366n * 86_400n;
const MAX_BODY = 1 << 20;

export async function readBody(request: Request): Promise<{ body: JsonObject; size: number }> {
    const type = (request.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
    if (type !== 'application/json') throw new Problem('unsupported_media_type', `the content type is '${type ?? ''}'`);
    const text = await request.text();
    const size = sizeOf(text);
    if (size > MAX_BODY) throw new Problem('body_too_large', `the body has more than ${MAX_BODY} bytes`);
    let value;
    try {
        value = parseExact(text);
    } catch (error) {
        if (error instanceof Invalid) throw error;
        throw new Problem('malformed_request', text === '' ? 'the body is empty; send a JSON object' : 'the body is not JSON');
    }
    if (!isObject(value)) throw new Problem('malformed_request', 'the body must be a JSON object');
    return { body: value, size };
}

/** A path of one kind alone: the payload's fields stand in the body itself, next to the envelope's. */
export function split(body: JsonObject): { envelope: JsonObject; payload: JsonObject } {
    const parts = Object.entries(body);
    const [envelope, payload] = [true, false].map((inside) => Object.fromEntries(parts.filter(([name]) => ENVELOPE.includes(name) === inside)));
    return { envelope: envelope ?? {}, payload: payload ?? {} };
}

export function poolFor(shared: Shared, caller: Caller, named: string | null): Pool {
    const usable = [...shared.pools.keys()].filter((pool) => caller.pools?.includes(pool) !== false).sort();
    const name = named ?? (usable.length === 1 ? usable[0] : undefined);
    if (name === undefined) throw new Invalid('pool', `is required; there are ${usable.join(', ') || 'none for this token'}`);
    checkPool(caller, name);
    const pool = shared.pools.get(name);
    if (pool === undefined) throw new Invalid('pool', `there is no pool '${name}'; there are ${usable.join(', ')}`);
    return pool;
}

interface Asked {
    kind: string;
    payload: JsonObject;
    envelope: JsonObject;
    size: number;
    key: string | null;
}

export async function submit(accepting: Accepting, shared: Shared, caller: Caller, asked: Asked): Promise<{ record: Stored; replayed: boolean }> {
    const fields = new Fields(asked.envelope);
    const pool = poolFor(shared, caller, fields.maybeText('pool', /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/));
    const partition = fields.maybeText('partition_key', /^[\x21-\x7e]{1,255}$/);
    const age = fields.take('max_age_s') ?? null;
    if (age !== null && (typeof age !== 'bigint' || age < 1n || age > YEAR_S)) throw new Invalid('max_age_s', 'must be a whole number of seconds, at least 1');
    if (fields.take('budget_key') !== undefined) throw new Invalid('budget_key', 'budgets are not served by a resident lane');
    const metadata = fields.take('metadata') ?? {};
    if (!isObject(metadata)) throw new Invalid('metadata', 'must be an object');
    if (stringify(metadata).length > MAX_METADATA) throw new Invalid('metadata', `must not exceed ${MAX_METADATA} bytes`);
    fields.end();

    const { kind } = asked;
    if (!(KINDS as readonly string[]).includes(kind)) throw new Invalid('kind', `'${kind.slice(0, 100)}' is not one of ${KINDS.join(', ')}`);
    const body = await compile(kind, asked.payload, pool.account);
    const delegate = delegateOf(body);
    if (delegate !== undefined) await checkSignature(delegate);
    const refusal = refusalOf(() => {
        checkKind(caller, kind);
        const inner = delegate === undefined ? body : { receiver: delegate.delegate.receiver, actions: delegate.delegate.actions };
        checkEffects(caller, {
            own: ownEffects(body.receiver, body.actions, pool.account),
            receivers: receiversOf(inner),
            deposit: depositAtRisk(body.actions),
        });
        if (asked.key !== null && asked.key !== body.key && RESERVED.some((begin) => asked.key?.startsWith(begin) === true)) {
            throw new Invalid('Idempotency-Key', `must not begin with ${RESERVED.join(', ')}: those keys are derived`, 'invalid_idempotency_key');
        }
        checkPolicy(body, pool.account, pool.policy);
        if (delegate !== undefined) checkDelegatePolicy(delegate, pool.policy);
    });
    const key = asked.key ?? body.key;
    if (key === null) {
        throw refusal ?? new Problem('missing_idempotency_key', `${kind} needs a key: nothing in it says which request is a retry of which`);
    }
    const payload = delegate === undefined ? asked.payload : { signed_delegate: base64(encodeSigned(delegate)) };
    const identity = delegate === undefined ? payload : { delegate: (body.key ?? '').slice('delegate:'.length) };
    const created = payload['new_account_id'];
    const claimed = delegate === undefined ? key : (body.key ?? key);
    const intent: Intent = {
        id: `${caller.tenant}/${pool.name}/${claimed}`,
        pool: pool.name,
        kind,
        payload: stringify(payload),
        fingerprint: await fingerprint(kind, identity),
        partitionKey: delegate !== undefined ? await senderKey(delegate) : (partition ?? (typeof created === 'string' ? created : claimed)),
        maxAgeS: age === null ? null : parseInt(age.toString(), 10),
        metadata,
        caller,
        size: asked.size,
    };
    if (refusal !== undefined) {
        // what was accepted before stays accepted, whatever the rules are now
        const known = await accepting.replay(intent);
        if (known === undefined) throw refusal;
        return { record: known, replayed: true };
    }
    if (claimed !== key) await accepting.alias(`${caller.tenant}/${pool.name}/${key}`, intent.fingerprint, intent.id);
    return accepting.submit(intent);
}

function refusalOf(check: () => void): Error | undefined {
    try {
        check();
        return undefined;
    } catch (error) {
        if (error instanceof Invalid || error instanceof Problem) return error;
        throw error;
    }
}
