/**
 * What a node's refusal of a transaction means: every error becomes one verdict, and so one reaction. Anything not named
 * here is `unknown`: look up, send the same bytes again, never sign again.
 */

import { variant } from './delegate';
import type { Json } from './exact';
import { isObject } from './fields';

export type Verdict =
    | 'accepted'
    | 'nonce_too_low'
    | 'expired'
    | 'insufficient_funds'
    | 'key_missing'
    | 'permanent'
    | 'busy'
    | 'rate_limited'
    | 'unavailable'
    | 'unknown';

/** How a call to a node failed. `error`: the node answered an error object. */
export interface Failure {
    sort: 'unavailable' | 'rate_limited' | 'too_large' | 'bad_answer' | 'error';
    message: string;
    status?: number;
    name?: string;
    cause?: string;
    /** Why a node gave up waiting, as newer ones say. */
    reason?: string;
    number?: bigint;
    data?: Json;
}

const INVALID_TX: Readonly<Record<string, Verdict>> = {
    InvalidNonce: 'nonce_too_low',
    Expired: 'expired',
    InvalidChain: 'expired',
    ShardCongested: 'busy',
    ShardStuck: 'busy',
    NotEnoughBalance: 'insufficient_funds',
    LackBalanceForState: 'insufficient_funds',
    NotEnoughGasKeyBalance: 'insufficient_funds',
    NotEnoughBalanceForDeposit: 'insufficient_funds',
    SignerDoesNotExist: 'key_missing',
    InvalidNonceIndex: 'key_missing',
    InvalidSignature: 'permanent',
    InvalidSignerId: 'permanent',
    InvalidReceiverId: 'permanent',
    ActionsValidation: 'permanent',
    TransactionSizeExceeded: 'permanent',
    CostOverflow: 'permanent',
    InvalidTransactionVersion: 'permanent',
};
const ACCESS_KEY: Readonly<Record<string, Verdict>> = {
    AccessKeyNotFound: 'key_missing',
    NotEnoughAllowance: 'insufficient_funds',
    ReceiverMismatch: 'permanent',
    MethodNameMismatch: 'permanent',
    RequiresFullAccess: 'permanent',
    DepositWithFunctionCall: 'permanent',
};
const WAITED_FOR = ['', 'NOT_OBSERVED', 'PENDING'];

/** `waited`: the call was a validating one, whose time-out means that the bytes passed and are waited for. */
export function verdictOf(failure: Failure, waited = false): Verdict {
    switch (failure.sort) {
        case 'rate_limited':
            return 'rate_limited';
        case 'too_large':
            return 'permanent';
        case 'bad_answer':
            return 'unknown';
        case 'unavailable':
            return 'unavailable';
        case 'error':
            return ofError(failure, waited);
    }
}

function ofError(failure: Failure, waited: boolean): Verdict {
    const [name, body] = invalidTx(failure.data ?? null);
    if (name === 'InvalidAccessKeyError') return lookUp(ACCESS_KEY, variant(body)[0]);
    if (name !== '') return lookUp(INVALID_TX, name);
    if (failure.cause === 'TIMEOUT_ERROR') return waited && WAITED_FOR.includes(failure.reason ?? '') ? 'accepted' : 'unknown';
    if (failure.name === 'REQUEST_VALIDATION_ERROR' && failure.cause === 'PARSE_ERROR') return 'permanent';
    if (failure.cause === 'NO_SYNCED_BLOCKS' || failure.cause === 'NOT_SYNCED_YET') return 'busy';
    return failure.status === 429 || failure.number === -429n ? 'rate_limited' : 'unknown';
}

function lookUp(table: Readonly<Record<string, Verdict>>, name: string): Verdict {
    return Object.hasOwn(table, name) ? (table[name] ?? 'unknown') : 'unknown';
}

function invalidTx(data: Json): [string, Json] {
    if (!isObject(data)) return ['', null];
    const inner = Object.hasOwn(data, 'TxExecutionError') ? data['TxExecutionError'] : data;
    return isObject(inner) ? variant(inner['InvalidTxError']) : ['', null];
}

/** A node's error object, with whatever types it chose made safe to read. */
export function readError(error: Json | undefined, status: number): Failure {
    const told = isObject(error) ? error : {};
    const cause = isObject(told['cause']) ? told['cause'] : {};
    const info = isObject(cause['info']) ? cause['info'] : {};
    const why = info['cause'];
    const [name, called] = [text(told['name']), text(cause['name'])];
    const number = told['code'];
    return {
        sort: 'error',
        status,
        name,
        cause: called,
        reason: isObject(why) && text(why['name']) !== '' ? text(why['name']) : variant(why)[0].slice(0, 100),
        ...(typeof number === 'bigint' ? { number } : {}),
        data: told['data'] ?? null,
        message: `${called || name || 'error'}: ${shown(told['data'] ?? told['message'] ?? null)}`.slice(0, 300),
    };
}

function text(value: Json | undefined): string {
    return typeof value === 'string' ? value.slice(0, 100) : '';
}

export function shown(value: Json): string {
    if (typeof value === 'string') return value.slice(0, 200);
    return JSON.stringify(value, (_, inner: Json) => (typeof inner === 'bigint' ? inner.toString() : inner)).slice(0, 200);
}
