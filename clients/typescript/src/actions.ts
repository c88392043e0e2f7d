/**
 * From the actions of near-api-js and near-kit to the actions of the API. Both libraries use the same shape; nothing is
 * asked with `instanceof`, so two copies of a library in one program do no harm. An action that is not known is refused.
 */
import type { Payload } from './types.js';

/** One action of the API. */
export type ApiAction = Payload<'near.transaction'>['actions'][number];

interface LibraryKey {
    readonly ed25519Key?: { readonly data: Iterable<number> };
    readonly secp256k1Key?: { readonly data: Iterable<number> };
}
interface Permission {
    readonly fullAccess?: unknown;
    readonly functionCall?: { readonly receiverId: string; readonly methodNames: readonly string[]; readonly allowance?: bigint | null };
}
/** An action as both libraries make it: one name, and what belongs to it. */
export interface LibraryAction {
    readonly createAccount?: unknown;
    readonly transfer?: { readonly deposit: bigint };
    readonly functionCall?: { readonly methodName: string; readonly args: Uint8Array; readonly gas: bigint; readonly deposit: bigint };
    readonly deployContract?: { readonly code: Uint8Array };
    readonly stake?: { readonly stake: bigint; readonly publicKey: LibraryKey };
    readonly addKey?: { readonly publicKey: LibraryKey; readonly accessKey: { readonly permission: Permission } };
    readonly deleteKey?: { readonly publicKey: LibraryKey };
    readonly deleteAccount?: { readonly beneficiaryId: string };
}

export function toApiAction(action: LibraryAction): ApiAction {
    const { transfer, functionCall, deployContract, stake, addKey, deleteKey, deleteAccount } = action;
    if (transfer) return { type: 'transfer', amount: transfer.deposit };
    if (functionCall) {
        const { methodName: method_name, args, gas, deposit } = functionCall;
        return { type: 'function_call', method_name, args_base64: base64(args), gas, deposit };
    }
    if (action.createAccount) return { type: 'create_account' };
    if (deployContract) return { type: 'deploy_contract', code_base64: base64(deployContract.code) };
    if (stake) return { type: 'stake', stake: stake.stake, public_key: keyText(stake.publicKey) };
    if (addKey) return { type: 'add_key', public_key: keyText(addKey.publicKey), permission: permissionOf(addKey.accessKey.permission) };
    if (deleteKey) return { type: 'delete_key', public_key: keyText(deleteKey.publicKey) };
    if (deleteAccount) return { type: 'delete_account', beneficiary_id: deleteAccount.beneficiaryId };
    throw new TypeError(`txmanager has no action like ${Object.keys(action).join(', ')}`);
}

function permissionOf({ fullAccess, functionCall }: Permission) {
    if (fullAccess) return 'full_access' as const;
    if (!functionCall) throw new TypeError('txmanager knows no such permission of a key');
    const { receiverId: receiver_id, methodNames, allowance } = functionCall;
    return { receiver_id, method_names: [...methodNames], allowance: allowance ?? null };
}

export function base64(bytes: Uint8Array): string {
    let text = '';
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
}

function keyText({ ed25519Key, secp256k1Key }: LibraryKey): string {
    if (ed25519Key) return `ed25519:${base58([...ed25519Key.data])}`;
    if (secp256k1Key) return `secp256k1:${base58([...secp256k1Key.data])}`;
    throw new TypeError('txmanager knows no such kind of public key');
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';

function base58(bytes: readonly number[]): string {
    let left = bytes.reduce((value, byte) => value * 256n + BigInt(byte), 0n);
    let text = '';
    for (; left > 0n; left /= 58n) text = ALPHABET.charAt(parseInt((left % 58n).toString(), 10)) + text;
    const zeros = bytes.findIndex((byte) => byte !== 0);
    return '1'.repeat(zeros < 0 ? bytes.length : zeros) + text;
}
