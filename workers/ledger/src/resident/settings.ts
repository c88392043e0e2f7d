/** The settings that both scripts share: one JSON text in the variable SETTINGS. No secret is in it. */

import { parse, type Json } from '../near/exact';
import { Fields } from '../near/fields';
import { Invalid, asSetting } from '../near/invalid';
import { checkAccount, keyText, parseKey } from '../near/names';
import type { Policy } from '../near/policy';
import { MOST_LANES } from './router';
import type { Settings } from './world';

const DAY_S = 86_400n;
const NEAR = 10n ** 24n;
const POLICY_LISTS = ['delegate_senders', 'delegate_receivers', 'delegate_methods', 'delegate_actions', 'own_account'] as const;
const POLICY_AMOUNTS = ['delegate_max_deposit', 'delegate_max_gas', 'max_deposit'] as const;
const POLICY_NUMBERS = ['delegate_max_bytes', 'delegate_min_blocks_left'] as const;

export interface Pool {
    name: string;
    account: string;
    lanes: readonly string[];
    queueLimit: number;
    policy: Policy;
    settings: Settings;
}

export interface Shared {
    prefix: string;
    pools: ReadonlyMap<string, Pool>;
    /** How often a lane that works is woken again, should its object die meanwhile. */
    alarmMs: number;
    /** How long, and how many requests, one run of a lane may take. */
    runMs: number;
    requests: number;
}

let newest: { text: string; shared: Shared } | undefined;

/** The same text is read once: it cannot change while an isolate lives. */
export function readSettings(text: string): Shared {
    if (newest?.text !== text) newest = { text, shared: asSetting(() => readShared(text)) };
    return newest.shared;
}

function readShared(text: string): Shared {
    const fields = Fields.of(parse(text), 'SETTINGS');
    const networks = new Map(named(fields, 'networks', readNetwork));
    const retentionMs = small(fields, 'retention_s', 3650n * DAY_S, 7n * DAY_S) * 1000;
    const pools = named(fields, 'pools', (pool, name) => readPool(pool, name, networks, retentionMs));
    const shared = {
        prefix: fields.take('prefix') === undefined ? 'txm' : fields.text('prefix', 63, 1),
        alarmMs: small(fields, 'alarm_ms', 600_000n, 30_000n),
        runMs: small(fields, 'run_ms', 600_000n, 25_000n),
        requests: small(fields, 'requests', 10_000n, 900n),
    };
    fields.end();
    return { ...shared, pools: new Map(pools) };
}

function named<T>(fields: Fields, name: string, read: (inner: Fields, key: string) => T): [string, T][] {
    const value = fields.take(name);
    const all = Fields.of(value, fields.where(name));
    return Object.entries(value as Record<string, Json>).map(([key]) => [key, read(Fields.of(all.take(key), all.where(key)), key)]);
}

function small(fields: Fields, name: string, limit: bigint, otherwise: bigint): number {
    return parseInt(fields.whole(name, limit, 'units', otherwise).toString(), 10);
}

type Network = Omit<Settings, 'policy' | 'retentionMs' | 'reserve'>;

function readNetwork(fields: Fields): Network {
    const nodes = (fields.list('rpc') ?? []).map((node, at) => {
        const one = Fields.of(node, `${fields.where('rpc')}[${at}]`);
        const told = { url: one.text('url', 2000, 8), direct: one.take('direct') === true };
        one.end();
        return told;
    });
    if (nodes.length === 0) throw new Invalid(fields.where('rpc'), 'must name at least one node');
    const network = {
        nodes,
        validityBlocks: fields.whole('validity_blocks', 10n ** 9n, 'blocks', 86_400n),
        epochBlocks: fields.whole('epoch_blocks', 10n ** 9n, 'blocks', 43_200n),
        includeWithinMs: small(fields, 'include_within_ms', 3_600_000n, 15_000n),
        holdAfterMs: small(fields, 'hold_after_s', 30n * DAY_S, DAY_S) * 1000,
        gasPrice: fields.yocto('gas_price', 10n ** 9n),
    };
    fields.end();
    return network;
}

function readPool(fields: Fields, name: string, networks: ReadonlyMap<string, Network>, retentionMs: number): Pool {
    const network = networks.get(fields.text('network'));
    if (network === undefined) throw new Invalid(fields.where('network'), `is not one of ${[...networks.keys()].join(', ')}`);
    const chain = [...networks].find(([, known]) => known === network)?.[0] ?? '';
    const account = checkAccount(fields.where('account'), fields.take('account'));
    const keys = (fields.list('keys') ?? []).map((key, at) => keyText(parseKey(key, `${fields.where('keys')}[${at}]`)));
    if (keys.length === 0 || keys.length > MOST_LANES) throw new Invalid(fields.where('keys'), `must name 1 to ${MOST_LANES} keys`);
    if (keys.some((key) => !key.startsWith('ed25519:'))) throw new Invalid(fields.where('keys'), 'must be ed25519 keys: WebCrypto signs with no other');
    const given = fields.take('policy');
    const policy = given === undefined ? {} : readPolicy(Fields.of(given, fields.where('policy')));
    const reserve = fields.yocto('reserve', NEAR / 10n);
    const queueLimit = small(fields, 'queue_limit', 10_000_000n, 100_000n);
    fields.end();
    const lanes = keys.map((key) => `near:${chain}:${account}:${key}`);
    return { name, account, lanes, queueLimit, policy, settings: { ...network, policy, retentionMs, reserve } };
}

function readPolicy(fields: Fields): Policy {
    const policy: Record<string, unknown> = {};
    for (const name of POLICY_LISTS) {
        const list = fields.list(name);
        if (list === undefined) continue;
        if (list.some((item) => typeof item !== 'string')) throw new Invalid(fields.where(name), 'must be a list of strings');
        policy[name] = list;
    }
    for (const name of POLICY_AMOUNTS) {
        const amount = fields.yocto(name, -1n);
        if (amount >= 0n) policy[name] = amount.toString();
    }
    for (const name of POLICY_NUMBERS) {
        const number = fields.whole(name, 10n ** 9n, 'units', -1n);
        if (number >= 0n) policy[name] = parseInt(number.toString(), 10);
    }
    fields.end();
    return policy;
}

export function poolOf(shared: Shared, lane: string): Pool | undefined {
    return [...shared.pools.values()].find(({ lanes }) => lanes.includes(lane));
}
