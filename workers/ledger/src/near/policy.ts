/**
 * What a pool allows, with safe defaults. Effects on the pool's own account are denied unless the operator names them: the
 * chain lets only the account itself add keys, deploy, stake or delete itself, so whatever is sent to it counts.
 */

import { attachedDeposit, attachedGas, encodeSigned, type Action, type SignedDelegate } from './actions';
import type { JsonObject } from './exact';
import { Invalid } from './invalid';
import { TGAS } from './limits';
import { keyText } from './names';
import type { Body } from './payload';

export interface Policy {
    delegate_senders?: readonly string[];
    delegate_receivers?: readonly string[];
    delegate_methods?: readonly string[];
    /** Not given: function calls, and transfers unless `delegate_methods` is. */
    delegate_actions?: readonly string[];
    /** yoctoNEAR of *ours* that a user's delegate may attach: enough for one-yocto assertions, no more. */
    delegate_max_deposit?: string;
    delegate_max_gas?: string;
    delegate_max_bytes?: number;
    delegate_min_blocks_left?: number;
    max_deposit?: string;
    own_account?: readonly string[];
}

/** A deposit above every limit: of what gives everything away. */
export const UNLIMITED = 1n << 256n;
const HARMLESS = ['transfer', 'create_account'];
/** What anybody but the account itself cannot do: meant for our account, whatever receiver is written beside it. */
const OWNER_ONLY = ['deploy_contract', 'stake', 'add_key', 'delete_key', 'delete_account', 'withdraw_from_gas_key'];

/** The effects on the signing account, by name; none for an ordinary transaction. */
export function ownEffects(receiver: string, actions: readonly Action[], account: string): string[] {
    const found = new Set<string>();
    for (const action of actions) {
        if (action.type !== 'delegate') found.add(action.type);
        else if (action.delegate.sender === account) {
            for (const name of ownEffects(action.delegate.receiver, action.delegate.actions, account)) found.add(name);
        }
    }
    if (receiver === account) return [...found].filter((name) => !HARMLESS.includes(name)).sort();
    // An account that this transaction creates is its own owner until the end of it.
    return actions[0]?.type === 'create_account' ? [] : [...found].filter((name) => OWNER_ONLY.includes(name)).sort();
}

/** What limits are held against: the attached deposit, or more than any limit where an account is deleted. */
export function depositAtRisk(actions: readonly Action[]): bigint {
    const inner = actions.flatMap((action) => (action.type === 'delegate' ? action.delegate.actions : [action]));
    return inner.some((action) => action.type === 'delete_account') ? UNLIMITED : attachedDeposit(actions);
}

/** Everybody who gets something by the sender's word: also the heirs of accounts that are deleted. */
export function receiversOf({ receiver, actions }: { receiver: string; actions: readonly Action[] }): string[] {
    const heirs = actions.flatMap((action) => (action.type === 'delete_account' ? [action.beneficiary] : []));
    return [...new Set([receiver, ...heirs])].sort();
}

/** An entry is a name, or `*.suffix` for every name below it; no list allows all. */
export function isAllowed(name: string, allowed: readonly string[] | undefined): boolean {
    if (allowed === undefined || allowed.includes(name)) return true;
    for (let at = name.indexOf('.'); at !== -1; at = name.indexOf('.', at + 1)) {
        if (allowed.includes(`*${name.slice(at)}`)) return true;
    }
    return false;
}

function refused(field: string, problem: string): Invalid {
    return new Invalid(field, problem, 'policy_refused');
}

function inWords(deposit: bigint): string {
    return deposit >= UNLIMITED ? 'the whole balance (delete_account)' : `${deposit} yoctoNEAR`;
}

export function checkPolicy(body: Body, account: string, policy: Policy): void {
    for (const name of ownEffects(body.receiver, body.actions, account)) {
        if (policy.own_account?.includes(name) === true) continue;
        const how = `the operator allows it with own_account = ["${name}"] in the pool's policy`;
        throw new Invalid('actions', `${name} acts on the pool's own account ${account}; ${how}`, 'own_account_refused');
    }
    const deposit = depositAtRisk(body.actions);
    if (policy.max_deposit !== undefined && deposit > BigInt(policy.max_deposit)) {
        throw refused('deposit', `${inWords(deposit)}; this pool spends at most ${policy.max_deposit} at once`);
    }
}

export function checkDelegatePolicy(signed: SignedDelegate, policy: Policy, field = 'signed_delegate'): void {
    const { sender, receiver, actions } = signed.delegate;
    if (!isAllowed(sender, policy.delegate_senders)) throw refused(`${field}.sender_id`, `${sender} may not use this relayer`);
    if (!isAllowed(receiver, policy.delegate_receivers)) {
        throw refused(`${field}.receiver_id`, `this relayer does not pay for calls to ${receiver}`);
    }
    const methods = policy.delegate_methods;
    const relayed = policy.delegate_actions ?? (methods === undefined ? ['function_call', 'transfer'] : ['function_call']);
    actions.forEach((action, index) => {
        const where = `${field}.actions[${index}]`;
        if (!relayed.includes(action.type)) {
            throw refused(where, `this relayer does not pay for ${action.type}, only for ${[...relayed].sort().join(', ')}`);
        }
        if (methods !== undefined && action.type === 'function_call' && !methods.includes(action.method)) {
            throw refused(where, `this relayer does not pay for '${action.method}'`);
        }
    });
    const [deposit, gas, size] = [depositAtRisk(actions), attachedGas(actions), BigInt(encodeSigned(signed).length + 1)];
    const limits: [string, bigint, bigint, string][] = [
        [`attach ${inWords(deposit)} of the relayer's money`, deposit, BigInt(policy.delegate_max_deposit ?? '1000'), 'deposit'],
        [`use ${gas} gas`, gas, BigInt(policy.delegate_max_gas ?? 300n * TGAS), 'gas'],
        [`are ${size} bytes`, size, BigInt(policy.delegate_max_bytes ?? 16_384), 'bytes'],
    ];
    for (const [asked, value, limit, name] of limits) {
        if (value > limit) throw refused(`${field}.actions`, `${asked}, but policy.delegate_max_${name} of this pool allows ${limit}`);
    }
}

export function checkExpiry(signed: SignedDelegate, height: bigint, policy: Policy, field = 'signed_delegate'): void {
    const last = signed.delegate.maxBlockHeight;
    if (last < height + BigInt(policy.delegate_min_blocks_left ?? 10)) {
        const why = `is ${last}, the chain is at ${height}: it expires before it can run; sign a new delegate`;
        throw new Invalid(`${field}.max_block_height`, why);
    }
}

/** The user's key as a node sees it. */
export interface KeyView {
    nonce: bigint;
    height: bigint;
    blockHash: string;
    /** The body of a FunctionCall permission; null is full access. */
    permission: JsonObject | null;
    gasKey: boolean;
}

/** What needs the user's access key. undefined: the chain has no such key. */
export function checkDelegateNonce(signed: SignedDelegate, key: KeyView | undefined, field = 'signed_delegate'): void {
    const { sender, nonce, nonceIndex, receiver, actions } = signed.delegate;
    if (key === undefined) throw new Invalid(`${field}.public_key`, `${keyText(signed.delegate.key)} is not a key of ${sender}`);
    if (key.gasKey || nonceIndex !== null) throw new Invalid(`${field}.nonce`, 'gas keys are not supported by a resident lane');
    if (nonce <= key.nonce) {
        const why = `is ${nonce}, the key is at ${key.nonce}: this delegate ran already or was overtaken; sign a new one`;
        throw new Invalid(`${field}.nonce`, why);
    }
    if (nonce >= key.height * 1_000_000n) {
        throw new Invalid(`${field}.nonce`, `is ${nonce}, beyond what the chain takes at height ${key.height}`);
    }
    if (key.permission !== null) checkCallPermission(receiver, actions, key.permission, field);
}

/** A function-call key may do one call, without deposit, to its own receiver and methods. */
export function checkCallPermission(receiver: string, actions: readonly Action[], permission: JsonObject, field: string): void {
    const [first] = actions;
    if (actions.length !== 1 || first?.type !== 'function_call') {
        throw new Invalid(`${field}.actions`, 'the key is a function-call key: exactly one function call is possible');
    }
    if (first.deposit > 0n) throw new Invalid(`${field}.actions[0].deposit`, 'the key is a function-call key: no deposit is possible');
    const only = permission['receiver_id'];
    if (receiver !== only) throw new Invalid(`${field}.receiver_id`, `the key may only call ${typeof only === 'string' ? only : 'nothing'}`);
    const names = permission['method_names'];
    if (Array.isArray(names) && names.length > 0 && !names.includes(first.method)) {
        throw new Invalid(`${field}.actions[0].method_name`, `the key may only call ${names.filter((name) => typeof name === 'string').join(', ')}`);
    }
}
