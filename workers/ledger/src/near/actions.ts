/** The actions of a transaction, with their borsh forms both ways. A tag is on the wire for ever. */

import { blob, list, string, u128, u16, u64, u8, type Reader } from './borsh';
import { join, type Bytes } from './bytes';
import { keyBytes, keySize, signatureSize, type PublicKey } from './names';

export interface CallPermission {
    receiver: string;
    methods: readonly string[];
    allowance: bigint | null;
}

export interface FunctionCall {
    type: 'function_call';
    method: string;
    args: Bytes;
    gas: bigint;
    deposit: bigint;
}

export interface AddKey {
    type: 'add_key';
    key: PublicKey;
    /** null is full access. */
    permission: CallPermission | null;
    /** Makes it a gas key. */
    nonces: number | null;
    nonce: bigint;
    balance: bigint;
}

export type PlainAction =
    | { type: 'create_account' }
    | { type: 'deploy_contract'; code: Bytes }
    | FunctionCall
    | { type: 'transfer'; deposit: bigint }
    | { type: 'stake'; stake: bigint; key: PublicKey }
    | AddKey
    | { type: 'delete_key'; key: PublicKey }
    | { type: 'delete_account'; beneficiary: string }
    | { type: 'transfer_to_gas_key'; key: PublicKey; deposit: bigint }
    | { type: 'withdraw_from_gas_key'; key: PublicKey; amount: bigint };

/** What a user signs and somebody else pays for (NEP-366). `second` is the form of DelegateV2. */
export interface Delegate {
    sender: string;
    receiver: string;
    actions: readonly PlainAction[];
    nonce: bigint;
    maxBlockHeight: bigint;
    key: PublicKey;
    second: boolean;
    nonceIndex: number | null;
}

export interface SignedDelegate {
    type: 'delegate';
    delegate: Delegate;
    curve: number;
    signature: Bytes;
}

export type Action = PlainAction | SignedDelegate;

export function encodeActions(actions: readonly Action[]): Bytes {
    return list(actions.map(encodeAction));
}

function encodeAction(action: Action): Bytes {
    switch (action.type) {
        case 'create_account':
            return u8(0);
        case 'deploy_contract':
            return join(u8(1), blob(action.code));
        case 'function_call':
            return join(u8(2), string(action.method), blob(action.args), u64(action.gas), u128(action.deposit));
        case 'transfer':
            return join(u8(3), u128(action.deposit));
        case 'stake':
            return join(u8(4), u128(action.stake), keyBytes(action.key));
        case 'add_key':
            return encodeAddKey(action);
        case 'delete_key':
            return join(u8(6), keyBytes(action.key));
        case 'delete_account':
            return join(u8(7), string(action.beneficiary));
        case 'delegate':
            return join(u8(action.delegate.second ? 14 : 8), encodeSigned(action));
        case 'transfer_to_gas_key':
            return join(u8(12), keyBytes(action.key), u128(action.deposit));
        case 'withdraw_from_gas_key':
            return join(u8(13), keyBytes(action.key), u128(action.amount));
    }
}

function encodeAddKey({ key, permission, nonces, nonce, balance }: AddKey): Bytes {
    const head = join(u8(5), keyBytes(key), u64(nonce));
    const calls = permission === null ? u8(1).subarray(1) : encodePermission(permission);
    if (nonces === null) return permission === null ? join(head, u8(1)) : join(head, u8(0), calls);
    return join(head, u8(permission === null ? 3 : 2), u128(balance), u16(nonces), calls);
}

function encodePermission({ receiver, methods, allowance }: CallPermission): Bytes {
    const most = allowance === null ? u8(0) : join(u8(1), u128(allowance));
    return join(most, string(receiver), list(methods.map(string)));
}

/** What travels as base64: the signed delegate without the action's own tag. */
export function encodeSigned({ delegate, curve, signature }: SignedDelegate): Bytes {
    return join(encodeDelegate(delegate), u8(curve), signature);
}

export function encodeDelegate(one: Delegate): Bytes {
    const call = join(string(one.sender), string(one.receiver), encodeActions(one.actions));
    const tail = join(u64(one.maxBlockHeight), keyBytes(one.key));
    if (!one.second) return join(call, u64(one.nonce), tail);
    const index = one.nonceIndex;
    const nonce = index === null ? join(u8(0), u64(one.nonce)) : join(u8(1), u64(one.nonce), u16(index));
    return join(u8(0), call, nonce, tail);
}

/**
 * Either form, without the action's own tag. The second form begins with its version, 0; the first one with the length of
 * an account id, which is never 0.
 */
export function readSigned(reader: Reader, second: boolean): SignedDelegate {
    if (second) {
        const version = reader.u8();
        if (version !== 0) throw reader.wrong(`version ${version} of DelegateV2 is not known`);
    }
    const [sender, receiver] = [reader.string(), reader.string()];
    const actions = reader.list(1, () => readPlain(reader));
    const form = second ? reader.u8() : 0;
    if (form > 1) throw reader.wrong(`a nonce has form 0 or 1, not ${form}`);
    const nonce = reader.u64();
    const nonceIndex = form === 1 ? reader.u16() : null;
    const delegate = { sender, receiver, actions, nonce, nonceIndex, maxBlockHeight: reader.u64(), key: readKey(reader), second };
    const curve = reader.u8();
    if (signatureSize(curve) === 0) throw reader.wrong(`signature type ${curve} is not supported`);
    return { type: 'delegate', delegate, curve, signature: reader.take(signatureSize(curve)) };
}

function readKey(reader: Reader): PublicKey {
    const curve = reader.u8();
    if (keySize(curve) === 0) throw reader.wrong(`key type ${curve} is not supported`);
    return { curve, data: reader.take(keySize(curve)) };
}

function readPermission(reader: Reader): CallPermission {
    const present = reader.u8();
    if (present > 1) throw reader.wrong(`an optional value starts with 0 or 1, not ${present}`);
    const allowance = present === 1 ? reader.u128() : null;
    return { allowance, receiver: reader.string(), methods: reader.list(4, () => reader.string()) };
}

function readAddKey(reader: Reader): AddKey {
    const [key, nonce, form] = [readKey(reader), reader.u64(), reader.u8()];
    if (form > 3) throw reader.wrong(`access key permission ${form} is not known`);
    const own = { type: 'add_key', key, nonce } as const;
    if (form === 0) return { ...own, permission: readPermission(reader), nonces: null, balance: 0n };
    if (form === 1) return { ...own, permission: null, nonces: null, balance: 0n };
    const [balance, nonces] = [reader.u128(), reader.u16()];
    return { ...own, permission: form === 2 ? readPermission(reader) : null, nonces, balance };
}

function readPlain(reader: Reader): PlainAction {
    const tag = reader.u8();
    switch (tag) {
        case 0:
            return { type: 'create_account' };
        case 1:
            return { type: 'deploy_contract', code: reader.blob() };
        case 2: {
            const [method, args] = [reader.string(), reader.blob()];
            return { type: 'function_call', method, args, gas: reader.u64(), deposit: reader.u128() };
        }
        case 3:
            return { type: 'transfer', deposit: reader.u128() };
        case 4:
            return { type: 'stake', stake: reader.u128(), key: readKey(reader) };
        case 5:
            return readAddKey(reader);
        case 6:
            return { type: 'delete_key', key: readKey(reader) };
        case 7:
            return { type: 'delete_account', beneficiary: reader.string() };
        case 12:
            return { type: 'transfer_to_gas_key', key: readKey(reader), deposit: reader.u128() };
        case 13:
            return { type: 'withdraw_from_gas_key', key: readKey(reader), amount: reader.u128() };
        default:
            throw reader.wrong(`action ${tag} is not supported`);
    }
}

export function attachedGas(actions: readonly Action[]): bigint {
    return actions.reduce((sum, action) => sum + (action.type === 'function_call' ? action.gas : 0n), 0n);
}

/** Tokens that travel with the actions; a relayer pays those of what it relays, too. */
export function attachedDeposit(actions: readonly Action[]): bigint {
    return actions.reduce((sum, action) => {
        if (action.type === 'delegate') return sum + attachedDeposit(action.delegate.actions);
        return sum + ('deposit' in action ? action.deposit : 0n);
    }, 0n);
}

