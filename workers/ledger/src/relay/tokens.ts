/** Who is calling and what they may do. Tokens are known by their SHA-256 alone: one JSON text in the variable TOKENS. */

import { hex, sha256, utf8 } from '../near/bytes';
import { parse } from '../near/exact';
import { Fields } from '../near/fields';
import { Invalid, asSetting } from '../near/invalid';
import { UNLIMITED, isAllowed } from '../near/policy';
import { Problem } from './problems';

const SCOPES = ['submit', 'read', 'operate'];

export interface Caller {
    name: string;
    sha256: string;
    scopes: readonly string[];
    tenant: string;
    perSecond: number | null;
    burst: number;
    maxQueued: number | null;
    maxQueuedBytes: number;
    pools: readonly string[] | undefined;
    kinds: readonly string[] | undefined;
    receivers: readonly string[] | undefined;
    maxDeposit: bigint | null;
}

export function readTokens(text: string): Caller[] {
    return asSetting(() => readAll(text));
}

function readAll(text: string): Caller[] {
    const list = parse(text);
    if (!Array.isArray(list)) throw new Invalid('TOKENS', 'must be a list of tokens');
    return list.map((one, at) => {
        const fields = Fields.of(one, `TOKENS[${at}]`);
        const token = { name: fields.text('name', 63, 1), sha256: fields.text('sha256', 64, 64), scopes: names(fields, 'scopes') ?? [] };
        if (token.scopes.length === 0 || token.scopes.some((scope) => !SCOPES.includes(scope))) {
            throw new Invalid(fields.where('scopes'), `must be some of ${SCOPES.join(', ')}`);
        }
        const tenant = fields.maybeText('tenant', /^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/) ?? 'default';
        const given = fields.take('limits');
        fields.end();
        return { ...token, tenant, ...readLimits(Fields.of(given ?? {}, fields.where('limits'))) };
    });
}

function readLimits(fields: Fields): Omit<Caller, 'name' | 'sha256' | 'scopes' | 'tenant'> {
    const rate = fields.take('per_second') ?? null;
    if (rate !== null && typeof rate !== 'number' && typeof rate !== 'bigint') throw new Invalid(fields.where('per_second'), 'must be a number');
    const perSecond = rate === null ? null : parseFloat(rate.toString());
    const number = (name: string, otherwise: bigint) => parseInt(fields.whole(name, 2n ** 53n, 'units', otherwise).toString(), 10);
    const queued = number('max_queued', 0n);
    const deposit = fields.yocto('max_deposit', -1n);
    const limits = {
        perSecond,
        burst: number('burst', BigInt(Math.max(1, Math.ceil(perSecond ?? 1)))),
        maxQueued: queued === 0 ? null : queued,
        maxQueuedBytes: number('max_queued_bytes', 256n << 20n),
        pools: names(fields, 'pools'),
        kinds: names(fields, 'kinds'),
        receivers: names(fields, 'receivers'),
        maxDeposit: deposit < 0n ? null : deposit,
    };
    fields.end();
    return limits;
}

function names(fields: Fields, name: string): string[] | undefined {
    return fields.list(name)?.map((item) => {
        if (typeof item !== 'string') throw new Invalid(fields.where(name), 'must be a list of strings');
        return item;
    });
}

export async function admit(request: Request, tokens: readonly Caller[]): Promise<Caller> {
    const header = request.headers.get('authorization') ?? '';
    const how = 'send the header Authorization: Bearer with a token (or Basic, with the token as password)';
    const secret = secretOf(header);
    if (secret === '') throw new Problem('unauthorized', `no token; ${how}`, { field: 'Authorization' });
    const digest = hex(await sha256(utf8(secret)));
    let found: Caller | undefined;
    for (const token of tokens) if (same(token.sha256, digest)) found = token; // all of them, always: the time tells nothing
    if (found === undefined) throw new Problem('unauthorized', `the token is not known; ${how} that is`, { field: 'Authorization' });
    return found;
}

function secretOf(header: string): string {
    const [scheme = '', secret = ''] = header.split(' ', 2);
    if (scheme.toLowerCase() === 'bearer') return secret.trim();
    if (scheme.toLowerCase() !== 'basic') return '';
    try {
        return atob(secret.trim()).split(':').slice(1).join(':');
    } catch {
        return '';
    }
}

function same(one: string, other: string): boolean {
    let differs = one.length ^ other.length;
    for (let at = 0; at < one.length; at++) differs |= one.charCodeAt(at) ^ other.charCodeAt(at % Math.max(1, other.length));
    return differs === 0;
}

export function need(caller: Caller, ...scopes: string[]): void {
    if (scopes.some((scope) => caller.scopes.includes(scope))) return;
    const wanted = scopes.map((scope) => `'${scope}'`).join(' or ');
    throw new Problem('forbidden', `token '${caller.name}' lacks the scope ${wanted}`, { field: 'Authorization' });
}

export function checkPool(caller: Caller, pool: string): void {
    if (caller.pools?.includes(pool) === false) {
        throw new Problem('forbidden', `token '${caller.name}' may not use pool '${pool}'`, { field: 'pool' });
    }
}

export function checkKind(caller: Caller, kind: string): void {
    if (caller.kinds?.includes(kind) === false) {
        throw new Problem('forbidden', `token '${caller.name}' may not ask for ${kind}`, { field: 'kind' });
    }
}

/** Hold what a payload does against the token's own limits, before anything is accepted. */
export function checkEffects(caller: Caller, effects: { own: readonly string[]; receivers: readonly string[]; deposit: bigint }): void {
    if (effects.own.length > 0 && !caller.scopes.includes('operate')) {
        const what = `${effects.own.join(', ')} on the pool's own account needs the scope 'operate', which token '${caller.name}' lacks`;
        throw new Problem('forbidden', what, { field: 'Authorization' });
    }
    for (const receiver of effects.receivers) {
        if (!isAllowed(receiver, caller.receivers)) {
            throw new Problem('forbidden', `token '${caller.name}' may not act on ${receiver}`, { field: 'receiver_id' });
        }
    }
    if (caller.maxDeposit !== null && effects.deposit > caller.maxDeposit) {
        const spends = effects.deposit >= UNLIMITED ? 'the whole balance' : effects.deposit.toString();
        const what = `${spends} is more than the ${caller.maxDeposit} that token '${caller.name}' may spend at once`;
        throw new Problem('forbidden', what, { field: 'deposit' });
    }
}
