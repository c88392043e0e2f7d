/**
 * The judge: from a transaction's final status to an outcome, from chain data only, the same for every observer. The top
 * status alone is not trusted: a root contract answers `false` with success, and a delegate's own receipt can fail under a
 * successful outer one. Refunds are not failures and are not counted.
 */

import { base64, fromBase64, type Bytes } from './bytes';
import { variant } from './delegate';
import { parse, type Json, type JsonObject } from './exact';
import { isObject } from './fields';

const MAX_LOGS = 100;
const MAX_LOG_CHARS = 16_384;
const MAX_VALUE = 65_536;
const MAX_ERRORS = 20;
const MAX_DEPTH = 32;
const EXACT = 2n ** 53n;
const RESULTS = ['SuccessValue', 'SuccessReceiptId', 'Failure'];

/** What a node said that is not in nearcore's shape: that node's fault, never an outcome. */
export class BadAnswer extends Error {}

export interface Outcome {
    status: 'done' | 'failed';
    tx_hash: string;
    nonce: string;
    result: JsonObject;
    error: JsonObject | null;
}

interface Step {
    id: string;
    executor: string;
    verdict: string;
    /** The value, the following receipt or the error. */
    told: Json;
    receipts: string[];
    logs: string[];
    gas: bigint;
    tokens: bigint;
    refund: boolean;
}

/** `status` is the result of `EXPERIMENTAL_tx_status`. */
export function judge(kind: string, payload: JsonObject, status: Json, hash: string, nonce: string): Outcome {
    const steps = stepsOf(status);
    const effect = effectOf(kind, steps);
    const value = valueOf(effect);
    const counted = steps.filter((step) => !step.refund);
    const burnt = counted.reduce((sum, step) => sum + step.tokens, 0n);
    const gas = counted.reduce((sum, step) => sum + step.gas, 0n);
    const failed = counted.filter((step) => step.verdict === 'Failure');
    const errors = failed.map((step): JsonObject => ({ receipt_id: step.id, executor_id: step.executor, error: step.told }));
    const [logs, cut] = cutLogs(counted.flatMap((step) => step.logs));
    const [told, whole] = readValue(value);
    const result: JsonObject = {
        block_hash: textOf(isObject(status) ? status['transaction_outcome'] : null, 'block_hash'),
        value: told,
        value_base64: value === undefined ? null : base64(value.subarray(0, MAX_VALUE)),
        logs,
        gas_burnt: gas.toString(),
        tokens_burnt: burnt.toString(),
        receipt_errors: errors.slice(0, MAX_ERRORS),
    };
    if (cut) result['logs_truncated'] = true;
    if (!whole) {
        result['value_truncated'] = true;
        result['value_base64_truncated'] = (value?.length ?? 0) > MAX_VALUE;
    }
    if (errors.length > MAX_ERRORS) result['receipt_errors_truncated'] = true;
    const error = failureOf(kind, payload, effect, value, errors, burnt);
    return { status: error === null ? 'done' : 'failed', tx_hash: hash, nonce, result, error };
}

function failureOf(kind: string, payload: JsonObject, effect: Step, value: Bytes | undefined, errors: JsonObject[], burnt: bigint): JsonObject | null {
    const failure = (code: string, message: string, helps: boolean, cause: Json): JsonObject => ({
        code,
        message,
        new_key_helps: helps,
        spent: burnt.toString(),
        cause,
    });
    if (effect.verdict === 'Failure') {
        const [code, helps] = nameOf(effect.told);
        if (kind === 'near.delegate') {
            // The user's nonce is used up, whatever failed behind it: only a newly signed delegate can run.
            return failure(code, `the delegate action failed on chain: ${code}; sign a new delegate`, false, effect.told);
        }
        return failure(code, `the transaction failed on chain: ${code}`, helps, effect.told);
    }
    const root = payload['root_contract'];
    const answeredFalse = value !== undefined && new TextDecoder().decode(value) === 'false';
    if (kind === 'near.create_account' && root !== undefined && root !== null && root !== '' && answeredFalse) {
        const cause = errors[0]?.['error'] ?? null;
        const [code, helps] = cause === null ? ['account_not_created', true] as const : nameOf(cause);
        return failure(code, `the root contract answered false: ${code}`, helps, cause);
    }
    return null;
}

/** A stable code from the chain's error, and whether another try under a new key can help. */
function nameOf(error: Json): [string, boolean] {
    let [name, body] = variant(error);
    while (['ActionError', 'InvalidTxError', 'TxExecutionError', 'FunctionCallError', 'kind'].includes(name)) {
        const inner = name === 'ActionError' && isObject(body) ? (body['kind'] ?? null) : body;
        if (name === 'FunctionCallError' && variant(inner)[0] === 'ExecutionError') return ['contract_panicked', true];
        const following = variant(inner);
        if (following[0] === '') break;
        [name, body] = following;
    }
    const snake = name.replace(/\p{Lu}/gu, (letter) => `_${letter.toLowerCase()}`).replace(/^_+|_+$/g, '').slice(0, 64);
    const code = snake === '' ? 'failed_on_chain' : snake;
    return [code, code !== 'account_already_exists'];
}

/** The step whose status is the intent's own: the end of the chain of receipts that stand for one another. */
function effectOf(kind: string, steps: Step[]): Step {
    const [transaction] = steps;
    if (transaction === undefined) throw new BadAnswer("a transaction's status lacks its outcomes");
    const byId = new Map(steps.map((step) => [step.id, step]));
    const last = follow(transaction, byId);
    if (last.verdict === 'Failure' || kind !== 'near.delegate') return last;
    const outer = byId.get(transaction.receipts[0] ?? '');
    // The outer receipt only unpacks the delegate; what the user asked for is the receipt it sends in the user's name.
    const inner = (outer?.receipts ?? []).map((id) => byId.get(id)).find((step) => step?.refund === false);
    return inner === undefined ? last : follow(inner, byId);
}

function follow(first: Step, byId: Map<string, Step>): Step {
    const seen = new Set([first.id]);
    for (let step = first; ; ) {
        if (step.verdict !== 'SuccessReceiptId') return step;
        const following = typeof step.told === 'string' ? byId.get(step.told) : undefined;
        if (following === undefined || seen.has(following.id)) {
            throw new BadAnswer('a final transaction misses the receipt that holds its result');
        }
        step = following;
        seen.add(step.id);
    }
}

function stepsOf(status: Json): Step[] {
    if (!isObject(status)) throw new BadAnswer("a transaction's status lacks its outcomes");
    const [first, outcomes, receipts] = [status['transaction_outcome'], status['receipts_outcome'], status['receipts']];
    if (first === undefined || outcomes === undefined) throw new BadAnswer("a transaction's status lacks its outcomes");
    if (!Array.isArray(outcomes)) throw new BadAnswer("a transaction's status has no list of receipts_outcome");
    const refunds = new Set<Json>();
    for (const receipt of Array.isArray(receipts) ? receipts : []) {
        if (isObject(receipt) && receipt['predecessor_id'] === 'system') refunds.add(receipt['receipt_id'] ?? null);
    }
    return [stepOf(first, new Set()), ...outcomes.map((outcome) => stepOf(outcome, refunds))];
}

function stepOf(value: Json, refunds: Set<Json>): Step {
    const outcome = isObject(value) ? value['outcome'] : undefined;
    const status = isObject(outcome) ? outcome['status'] : undefined;
    if (!isObject(value) || !isObject(outcome) || !isObject(status) || Object.keys(status).length !== 1) {
        throw new BadAnswer("an outcome of a final transaction is not in nearcore's shape");
    }
    const [verdict, told] = variant(status);
    const [id, executor] = [value['id'], outcome['executor_id']];
    if (typeof id !== 'string' || typeof executor !== 'string') {
        throw new BadAnswer('an outcome of a final transaction lacks its id or executor');
    }
    if (!RESULTS.includes(verdict)) throw new BadAnswer(`receipt ${id.slice(0, 64)} of a final transaction has no result`);
    return {
        ...{ id, executor, verdict, told, refund: refunds.has(id) },
        receipts: texts(outcome['receipt_ids']),
        logs: texts(outcome['logs']),
        gas: numberOf(outcome['gas_burnt']),
        tokens: numberOf(outcome['tokens_burnt']),
    };
}

function texts(value: Json | undefined): string[] {
    return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function textOf(value: Json | undefined, name: string): string {
    const found = isObject(value) ? value[name] : undefined;
    if (typeof found !== 'string') throw new BadAnswer(`a transaction's status lacks the string '${name}'`);
    return found;
}

function numberOf(value: Json | undefined): bigint {
    if (typeof value === 'string' && /^[0-9]{1,39}$/.test(value)) return BigInt(value);
    if (typeof value === 'bigint' && value >= 0n) return value;
    throw new BadAnswer('an outcome holds something that is not an amount of gas or tokens');
}

function valueOf(effect: Step): Bytes | undefined {
    if (effect.verdict !== 'SuccessValue') return undefined;
    const value = typeof effect.told === 'string' ? fromBase64(effect.told) : undefined;
    if (value === undefined) throw new BadAnswer('a SuccessValue is not base64');
    return value;
}

function cutLogs(logs: string[]): [string[], boolean] {
    const kept: string[] = [];
    let room = MAX_LOG_CHARS;
    for (const log of logs) {
        if (kept.length === MAX_LOGS || room <= 0) return [kept, true];
        kept.push(Array.from(log).slice(0, room).join(''));
        room -= Array.from(log).length;
    }
    return [kept, room < 0];
}

/** What a contract returned as JSON, and whether it can be kept. Bytes that are no JSON are null, and whole. */
function readValue(value: Bytes | undefined): [Json, boolean] {
    if (value === undefined || value.length === 0) return [null, true];
    if (value.length > MAX_VALUE) return [null, false];
    try {
        const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value);
        const kept = clean(parse(text), MAX_DEPTH);
        return kept === undefined ? [null, false] : [kept, true];
    } catch {
        return [null, true];
    }
}

/** Numbers that not every reader keeps exact become their own text; undefined: too deep. */
function clean(value: Json, depth: number): Json | undefined {
    if (depth < 0) return undefined;
    if (typeof value === 'bigint') return value >= -EXACT && value <= EXACT ? value : value.toString();
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([name, inner]) => [name, clean(inner, depth - 1)] as const);
    if (entries.some(([, inner]) => inner === undefined)) return undefined;
    const kept = entries.map(([name, inner]) => [name, inner ?? null] as const);
    return Array.isArray(value) ? kept.map(([, inner]) => inner) : Object.fromEntries(kept);
}
