/** The intents that a resident serves: from a payload to receiver and actions. What can never succeed is refused. */

import { encodeActions, type Action, type AddKey, type FunctionCall, type PlainAction, type SignedDelegate } from './actions';
import { string } from './borsh';
import { fromBase64, utf8, type Bytes } from './bytes';
import { delegateHash, readDelegate } from './delegate';
import { stringify, type Json, type JsonObject } from './exact';
import { Fields } from './fields';
import { Invalid } from './invalid';
import { TGAS, checkActions, checkSize } from './limits';
import { keyText, parent } from './names';

const DEFAULT_GAS = 30n * TGAS;
export const KINDS = [
    'near.create_account',
    'near.delegate',
    'near.recovery',
    'near.transaction',
    'near.function_call',
    'near.transfer',
] as const;

/** The parts of a transaction that no attempt changes. */
export interface Body {
    receiver: string;
    actions: readonly Action[];
    receiverBytes: Bytes;
    actionBytes: Bytes;
}

interface Wanted {
    receiver: string;
    actions: readonly Action[];
    /** The idempotency key that the payload itself names. */
    key: string | null;
}

/** `account`: the relayer's own, which pays and signs. */
export async function compile(kind: string, payload: JsonObject, account: string): Promise<Body & { key: string | null }> {
    const fields = new Fields(payload);
    const wanted = await want(kind, fields, account);
    fields.end();
    const { receiver, actions, key } = wanted;
    checkActions(actions);
    const body = { receiver, actions, key, receiverBytes: string(receiver), actionBytes: encodeActions(actions) };
    checkSize(body.receiverBytes, body.actionBytes);
    return body;
}

export function delegateOf({ actions }: Body): SignedDelegate | undefined {
    const [first] = actions;
    return first?.type === 'delegate' ? first : undefined;
}

async function want(kind: string, fields: Fields, account: string): Promise<Wanted> {
    switch (kind) {
        case 'near.create_account':
            return createAccount(fields, account);
        case 'near.delegate': {
            const signed = readDelegate(fields.take('signed_delegate'));
            return { receiver: signed.delegate.sender, actions: [signed], key: `delegate:${await delegateHash(signed)}` };
        }
        case 'near.recovery': {
            const [who, message] = [fields.account('account_id'), fields.text('message_id')];
            if (!/^[\x21-\x7e]{1,128}$/.test(message)) {
                throw new Invalid('message_id', 'must be 1 to 128 visible ASCII characters without spaces');
            }
            return { receiver: fields.account('contract_id'), actions: [call(fields)], key: `recovery:${who}:${message}` };
        }
        case 'near.function_call':
            return { receiver: fields.account('contract_id'), actions: [call(fields)], key: null };
        case 'near.transaction': {
            const actions = fields.list('actions') ?? [];
            const read = actions.map((action, index) => plainAction(action, `actions.${index}`));
            return { receiver: fields.account('receiver_id'), actions: read, key: null };
        }
        case 'near.transfer':
            return { receiver: fields.account('receiver_id'), actions: [{ type: 'transfer', deposit: fields.yocto('amount') }], key: null };
        default:
            throw new Invalid('kind', `'${kind.slice(0, 100)}' is not one of ${KINDS.join(', ')}`);
    }
}

function createAccount(fields: Fields, account: string): Wanted {
    const id = fields.account('new_account_id');
    const key = fields.key('public_key');
    if (key.curve === 2) throw new Invalid('public_key', 'ml-dsa-65 keys are not supported by a resident lane');
    const balance = fields.yocto('initial_balance', 0n);
    const root = fields.take('root_contract') ?? null;
    const extra = (fields.list('extra_actions') ?? []).map((action, index) => plainAction(action, `extra_actions.${index}`));
    const gas = fields.gas('gas', 100n * TGAS);
    const derived = `create:${id}:${keyText(key)}`;
    if (root !== null) {
        if (extra.length > 0) throw new Invalid('payload', 'extra_actions need a sub-account of the relayer; a root contract cannot run them');
        const contract = new Fields({ root_contract: root }).account('root_contract');
        if (parent(id) !== undefined && parent(id) !== contract) {
            throw new Invalid('new_account_id', `${id} cannot be created by the root contract ${contract}`);
        }
        const args = utf8(JSON.stringify({ new_account_id: id, new_public_key: keyText(key) }));
        return { receiver: contract, key: derived, actions: [{ type: 'function_call', method: 'create_account', args, gas, deposit: balance }] };
    }
    if (parent(id) !== account) {
        throw new Invalid('new_account_id', `${id} is not a sub-account of ${account}: name it *.${account}, or set root_contract`);
    }
    const funded: PlainAction[] = balance > 0n ? [{ type: 'transfer', deposit: balance }] : [];
    const full: AddKey = { type: 'add_key', key, permission: null, nonces: null, nonce: 0n, balance: 0n };
    return { receiver: id, key: derived, actions: [{ type: 'create_account' }, ...funded, full, ...extra] };
}

function call(fields: Fields): FunctionCall {
    const method = fields.text('method_name', 256, 1);
    const [given, raw] = [fields.take('args') ?? null, fields.take('args_base64') ?? null];
    if (given !== null && raw !== null) throw new Invalid('payload', 'give `args` or `args_base64`, not both');
    return { type: 'function_call', method, args: argsOf(given, raw), gas: fields.gas('gas', DEFAULT_GAS), deposit: fields.yocto('deposit', 0n) };
}

function argsOf(given: Json, raw: Json): Bytes {
    if (raw === null) return utf8(given === null ? '{}' : stringify(given));
    const bytes = typeof raw === 'string' ? fromBase64(raw) : undefined;
    if (bytes === undefined) throw new Invalid('args_base64', 'is not base64');
    return bytes;
}

function plainAction(value: Json, field: string): PlainAction {
    const fields = Fields.of(value, field);
    const action = oneAction(fields, field);
    fields.end();
    return action;
}

function oneAction(fields: Fields, field: string): PlainAction {
    const type = fields.text('type');
    switch (type) {
        case 'create_account':
            return { type };
        case 'deploy_contract':
            return { type, code: fields.bytes('code_base64') };
        case 'function_call':
            return call(fields);
        case 'transfer':
            return { type, deposit: fields.yocto('amount') };
        case 'stake':
            return { type, stake: fields.yocto('stake'), key: fields.key('public_key') };
        case 'add_key':
            return addKey(fields);
        case 'delete_key':
            return { type, key: fields.key('public_key') };
        case 'delete_account':
            return { type, beneficiary: fields.account('beneficiary_id') };
        case 'transfer_to_gas_key':
            return { type, key: fields.key('public_key'), deposit: fields.yocto('amount') };
        case 'withdraw_from_gas_key':
            return { type, key: fields.key('public_key'), amount: fields.yocto('amount') };
        default:
            throw new Invalid(`${field}.type`, `'${type.slice(0, 40)}' is no action`);
    }
}

function addKey(fields: Fields): AddKey {
    const given = fields.take('permission') ?? 'full_access';
    const nonces = fields.take('num_nonces') ?? null;
    if (nonces !== null && (typeof nonces !== 'bigint' || nonces < 1n || nonces > 1024n)) {
        throw new Invalid(fields.where('num_nonces'), 'must be 1 to 1024');
    }
    const own = { type: 'add_key', key: fields.key('public_key'), nonces: nonces === null ? null : parseInt(nonces.toString(), 10), nonce: 0n, balance: 0n } as const;
    if (given === 'full_access') return { ...own, permission: null };
    const told = Fields.of(given, fields.where('permission'));
    const methods = (told.list('method_names') ?? []).map((name) => {
        if (typeof name !== 'string') throw new Invalid(told.where('method_names'), 'must be a list of strings');
        return name;
    });
    const allowance = told.take('allowance') ?? null;
    const receiver = told.account('receiver_id');
    told.end();
    return { ...own, permission: { receiver, methods, allowance: allowance === null ? null : new Fields({ allowance }).yocto('allowance') } };
}
