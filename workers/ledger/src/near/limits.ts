/** What the protocol refuses whatever the state: checked before a nonce is spent, so that it fails the intent alone. */

import { attachedGas, type Action, type AddKey, type FunctionCall } from './actions';
import { U128_MAX, U64_MAX } from './borsh';
import { utf8 } from './bytes';
import { Invalid } from './invalid';
import { checkAccount } from './names';

export const TGAS = 10n ** 12n;
const MAX_ACTIONS = 100;
const MAX_PREPAID_GAS = 1000n * TGAS;
const MAX_METHOD_NAME = 256;
const MAX_METHOD_NAMES_BYTES = 2000;
const MAX_ARGS = 4_194_304;
const MAX_GAS_KEY_NONCES = 1024;
const YOCTO = 'must be 0 to 2^128-1 yoctoNEAR';
/** Upper bound of everything in a signed transaction but the receiver and the actions. */
const FRAME_BYTES = 64 + 4 + 65 + 11 + 32 + 2 + 66;
/** What every public node takes over HTTP, where a transaction stands as base64 in at most 2 MiB. */
export const MAX_TRANSACTION_BYTES = 1_572_672;

export function checkActions(actions: readonly Action[], field = 'actions'): void {
    if (actions.length === 0) throw new Invalid(field, 'must hold at least one action');
    if (actions.length > MAX_ACTIONS) {
        throw new Invalid(field, `at most ${MAX_ACTIONS} actions fit into one transaction, not ${actions.length}`);
    }
    let gas = attachedGas(actions);
    actions.forEach((action, index) => {
        const where = `${field}[${index}]`;
        if (action.type === 'delegate') {
            checkActions(action.delegate.actions, `${where}.actions`);
            gas += attachedGas(action.delegate.actions);
        } else if (action.type === 'delete_account' && index !== actions.length - 1) {
            throw new Invalid(where, 'delete_account must be the last action');
        } else {
            checkAction(action, where);
        }
    });
    if (gas > MAX_PREPAID_GAS) throw new Invalid(field, `attach ${gas} gas in total, more than the limit of ${MAX_PREPAID_GAS}`);
}

export function checkSize(receiver: Uint8Array, actions: Uint8Array): void {
    const size = FRAME_BYTES + receiver.length + actions.length;
    if (size > MAX_TRANSACTION_BYTES) {
        throw new Invalid('actions', `make a transaction of ${size} bytes; the limit is ${MAX_TRANSACTION_BYTES}`);
    }
}

function checkAction(action: Action, where: string): void {
    for (const name of ['deposit', 'stake', 'amount', 'balance'] as const) {
        const value = (action as Partial<Record<typeof name, bigint>>)[name] ?? 0n;
        if (value < 0n || value > U128_MAX) throw new Invalid(`${where}.${name}`, YOCTO);
    }
    if (action.type === 'function_call') checkCall(action, where);
    if (action.type === 'deploy_contract' && action.code.length > MAX_ARGS) {
        throw new Invalid(`${where}.code`, `has ${action.code.length} bytes; the limit is ${MAX_ARGS}`);
    }
    if (action.type === 'add_key') checkAddKey(action, where);
    if (action.type === 'delete_account') checkAccount(`${where}.beneficiary_id`, action.beneficiary);
}

function checkCall({ method, args, gas }: FunctionCall, where: string): void {
    const size = utf8(method).length;
    if (size < 1 || size > MAX_METHOD_NAME) throw new Invalid(`${where}.method_name`, `must have 1 to ${MAX_METHOD_NAME} bytes`);
    if (args.length > MAX_ARGS) throw new Invalid(`${where}.args`, `have ${args.length} bytes; the limit is ${MAX_ARGS}`);
    if (gas < 1n || gas > U64_MAX) throw new Invalid(`${where}.gas`, 'must be at least 1; 30000000000000 (30 Tgas) is usual');
}

function checkAddKey({ permission, nonces, balance }: AddKey, where: string): void {
    if (permission !== null) {
        checkAccount(`${where}.receiver_id`, permission.receiver);
        const sizes = permission.methods.map((name) => utf8(name).length);
        if (sizes.some((size) => size < 1 || size > MAX_METHOD_NAME)) {
            throw new Invalid(`${where}.method_names`, `each name must have 1 to ${MAX_METHOD_NAME} bytes`);
        }
        if (sizes.reduce((sum, size) => sum + size + 1, 0) > MAX_METHOD_NAMES_BYTES) {
            throw new Invalid(`${where}.method_names`, `have more than ${MAX_METHOD_NAMES_BYTES} bytes together`);
        }
    }
    if (nonces === null) return;
    if (nonces < 1 || nonces > MAX_GAS_KEY_NONCES) throw new Invalid(`${where}.num_nonces`, `must be 1 to ${MAX_GAS_KEY_NONCES}`);
    if (balance !== 0n) throw new Invalid(`${where}.gas_balance`, 'must be 0; fund the key with transfer_to_gas_key');
    if (permission?.allowance != null) {
        throw new Invalid(`${where}.allowance`, 'a gas key has no allowance: its own balance plays that part');
    }
}
