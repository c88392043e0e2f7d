/**
 * Meta-transactions: a user's signed delegate, in the forms in which it arrives, checked before our gas is spent. Replay is
 * caught by its hash, which names the signed content, not its bytes. WebCrypto verifies Ed25519 alone.
 */

import { encodeDelegate, readSigned, type AddKey, type Delegate, type PlainAction, type SignedDelegate } from './actions';
import { Reader, U128_MAX, U64_MAX, u32 } from './borsh';
import { base58, fromBase64, join, sha256, utf8, type Bytes } from './bytes';
import type { Json, JsonObject } from './exact';
import { isObject } from './fields';
import { Invalid } from './invalid';
import { checkActions } from './limits';
import { checkAccount, keyBytes, keyText, parseKey, parseSignature } from './names';

const MAX_TEXT = 3_000_000;
/** NEP-461: no signature over a delegate is also one over a transaction. */
const [FIRST_PREFIX, SECOND_PREFIX] = [u32(2 ** 30 + 366), u32(2 ** 30 + 611)];

/** Base64 of the borsh bytes (with or without the action's own tag), or nearcore's JSON. */
export function readDelegate(value: Json | undefined, field = 'signed_delegate'): SignedDelegate {
    const signed = typeof value === 'string' ? fromText(value, field) : fromJson(value, field);
    checkAccount(`${field}.sender_id`, signed.delegate.sender);
    checkAccount(`${field}.receiver_id`, signed.delegate.receiver);
    checkActions(signed.delegate.actions, `${field}.actions`);
    return signed;
}

function fromText(text: string, field: string): SignedDelegate {
    if (text.length > MAX_TEXT) throw new Invalid(field, `is longer than ${MAX_TEXT} characters`);
    let raw: Uint8Array | undefined = fromBase64(text);
    if (raw === undefined) throw new Invalid(field, 'is not base64');
    // A bare first form begins with the length of an account id, at most 64: where 8 or 14 is not followed by three
    // zeros, it is the action's tag.
    const tagged = (raw[0] === 8 || raw[0] === 14) && (raw[1] !== 0 || raw[2] !== 0 || raw[3] !== 0);
    if (tagged) raw = raw.subarray(1);
    const reader = new Reader(raw, field);
    const signed = readSigned(reader, raw[0] === 0);
    reader.end();
    return signed;
}

export async function delegateDigest(delegate: Delegate): Promise<Bytes> {
    return sha256(join(delegate.second ? SECOND_PREFIX : FIRST_PREFIX, encodeDelegate(delegate)));
}

/** The same for every encoding and every signature of one delegate action. */
export async function delegateHash({ delegate }: SignedDelegate): Promise<string> {
    return base58(await delegateDigest(delegate));
}

/** The same for all delegates that compete for one sequence of nonces: they share a lane. */
export async function senderKey({ delegate }: SignedDelegate): Promise<string> {
    return `delegates:${base58(await sha256(join(utf8(delegate.sender), keyBytes(delegate.key))))}`;
}

export async function checkSignature(signed: SignedDelegate, field = 'signed_delegate'): Promise<void> {
    const { key } = signed.delegate;
    if (key.curve !== 0) throw new Invalid(`${field}.public_key`, 'only ed25519 keys can be verified by a resident lane');
    const digest = await delegateDigest(signed.delegate);
    const holds = signed.curve === 0 && (await verify(key.data, signed.signature, digest));
    if (!holds) throw new Invalid(`${field}.signature`, `is not a signature of ${keyText(key)} over this delegate action`);
}

async function verify(key: Bytes, signature: Bytes, digest: Bytes): Promise<boolean> {
    try {
        const imported = await crypto.subtle.importKey('raw', key, { name: 'Ed25519' }, false, ['verify']);
        return await crypto.subtle.verify({ name: 'Ed25519' }, imported, signature, digest);
    } catch {
        return false; // a key that is no point of the curve
    }
}

function fromJson(value: Json | undefined, field: string): SignedDelegate {
    if (!isObject(value)) throw new Invalid(field, 'must be base64 of the signed delegate, or its JSON object');
    let told = value['delegate_action'];
    let where = `${field}.delegate_action`;
    const second = isObject(told) && Object.keys(told).join() === 'V2';
    if (isObject(told) && second) {
        told = told['V2'];
        where = `${where}.V2`;
    }
    if (!isObject(told)) throw new Invalid(field, 'must have `delegate_action` and `signature` (nearcore\'s JSON), or be base64');
    const [nonce, index] = second ? nonceOf(told['nonce'], `${where}.nonce`) : [told['nonce'], null];
    const actions = told['actions'];
    if (!Array.isArray(actions)) throw new Invalid(`${where}.actions`, 'must be a list');
    const { curve, signature } = parseSignature(value['signature'], `${field}.signature`);
    const delegate: Delegate = {
        sender: checkAccount(`${where}.sender_id`, told['sender_id']),
        receiver: checkAccount(`${where}.receiver_id`, told['receiver_id']),
        actions: actions.map((action, n) => jsonAction(action, `${where}.actions[${n}]`)),
        nonce: number(nonce, `${where}.nonce`),
        maxBlockHeight: number(told['max_block_height'], `${where}.max_block_height`),
        key: parseKey(told['public_key'], `${where}.public_key`),
        second,
        nonceIndex: index,
    };
    return { type: 'delegate', delegate, curve, signature };
}

/** `{"Nonce": {"nonce": 1}}` or `{"GasKeyNonce": {"nonce": 1, "nonce_index": 0}}`. */
function nonceOf(value: Json | undefined, field: string): [Json | undefined, number | null] {
    const [name, body] = variant(value);
    if (name === 'Nonce' && isObject(body)) return [body['nonce'], null];
    if (name === 'GasKeyNonce' && isObject(body)) {
        return [body['nonce'], parseInt(number(body['nonce_index'], `${field}.nonce_index`, 1023n).toString(), 10)];
    }
    throw new Invalid(field, 'must be {"Nonce": {...}} or {"GasKeyNonce": {...}}');
}

/** An enum as serde writes it: `"Name"` or `{"Name": body}`. */
export function variant(value: Json | undefined): [string, Json] {
    if (typeof value === 'string') return [value, null];
    if (isObject(value)) {
        const [first, ...more] = Object.entries(value);
        if (first !== undefined && more.length === 0) return first;
    }
    return ['', null];
}

function number(value: Json | undefined, field: string, limit = U64_MAX): bigint {
    const found = typeof value === 'string' && /^[0-9]{1,39}$/.test(value) ? BigInt(value) : value;
    if (typeof found !== 'bigint' || found < 0n || found > limit) throw new Invalid(field, `must be a whole number from 0 to ${limit}`);
    return found;
}

function text(value: Json | undefined, field: string): string {
    if (typeof value !== 'string') throw new Invalid(field, 'must be a string');
    return value;
}

function bytes(value: Json | undefined, field: string): Bytes {
    const raw = fromBase64(text(value, field));
    if (raw === undefined) throw new Invalid(field, 'is not base64');
    return raw;
}

/** One action in nearcore's JSON: `"CreateAccount"`, `{"Transfer": {"deposit": "1"}}`, ... */
function jsonAction(value: Json, field: string): PlainAction {
    const [name, inner] = variant(value);
    const body: JsonObject = isObject(inner) ? inner : {};
    const where = `${field}.${name.slice(0, 40)}`;
    const money = (key: string) => number(body[key], `${where}.${key}`, U128_MAX);
    const key = () => parseKey(body['public_key'], `${where}.public_key`);
    switch (name) {
        case 'CreateAccount':
            return { type: 'create_account' };
        case 'DeployContract':
            return { type: 'deploy_contract', code: bytes(body['code'], `${where}.code`) };
        case 'FunctionCall': {
            const [method, args] = [text(body['method_name'], `${where}.method_name`), bytes(body['args'], `${where}.args`)];
            return { type: 'function_call', method, args, gas: number(body['gas'], `${where}.gas`), deposit: money('deposit') };
        }
        case 'Transfer':
            return { type: 'transfer', deposit: money('deposit') };
        case 'Stake':
            return { type: 'stake', stake: money('stake'), key: key() };
        case 'AddKey':
            return jsonAddKey(key(), body['access_key'], `${where}.access_key`);
        case 'DeleteKey':
            return { type: 'delete_key', key: key() };
        case 'DeleteAccount':
            return { type: 'delete_account', beneficiary: text(body['beneficiary_id'], `${where}.beneficiary_id`) };
        case 'TransferToGasKey':
            return { type: 'transfer_to_gas_key', key: key(), deposit: money('deposit') };
        case 'WithdrawFromGasKey':
            return { type: 'withdraw_from_gas_key', key: key(), amount: money('amount') };
        default:
            throw new Invalid(field, `action '${name.slice(0, 40)}' is not supported`);
    }
}

function jsonAddKey(key: AddKey['key'], value: Json | undefined, field: string): AddKey {
    if (!isObject(value)) throw new Invalid(field, 'must be an object');
    const own = { type: 'add_key', key, nonces: null, balance: 0n, nonce: number(value['nonce'], `${field}.nonce`) } as const;
    const [name, calls] = variant(value['permission']);
    if (name === 'FullAccess') return { ...own, permission: null };
    if (name !== 'FunctionCall' || !isObject(calls)) throw new Invalid(`${field}.permission`, 'must be "FullAccess" or {"FunctionCall": {...}}');
    const methods = calls['method_names'];
    if (!Array.isArray(methods)) throw new Invalid(`${field}.permission.method_names`, 'must be a list');
    const allowance = calls['allowance'] ?? null;
    return {
        ...own,
        permission: {
            receiver: text(calls['receiver_id'], `${field}.permission.receiver_id`),
            methods: methods.map((method) => text(method, `${field}.permission.method_names`)),
            allowance: allowance === null ? null : number(allowance, `${field}.permission.allowance`, U128_MAX),
        },
    };
}
