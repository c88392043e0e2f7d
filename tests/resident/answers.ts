/** Answers the questions of `vectors.py` with the code of the resident lane. */
import { readDelegate, delegateHash, senderKey, checkSignature } from '../../workers/ledger/src/near/delegate';
import { encodeSigned } from '../../workers/ledger/src/near/actions';
import { hex } from '../../workers/ledger/src/near/bytes';
import { parse, stringify, type JsonObject } from '../../workers/ledger/src/near/exact';
import { Invalid } from '../../workers/ledger/src/near/invalid';
import { BadAnswer, judge } from '../../workers/ledger/src/near/judge';
import { parseLane } from '../../workers/ledger/src/near/names';
import { compile, delegateOf } from '../../workers/ledger/src/near/payload';
import {
    checkDelegateNonce,
    checkDelegatePolicy,
    checkExpiry,
    checkPolicy,
    depositAtRisk,
    ownEffects,
    receiversOf,
    type Policy,
} from '../../workers/ledger/src/near/policy';
import { Signer } from '../../workers/ledger/src/near/transaction';
import { readError, verdictOf, type Failure } from '../../workers/ledger/src/near/verdicts';
import { markOf } from '../../workers/ledger/src/resident/blake2b';
import { decide } from '../../workers/ledger/src/resident/decide';
import { fingerprint } from '../../workers/ledger/src/resident/fingerprint';
import { packAttempt, packFinal, packOutcome, type RecordRow } from '../../workers/ledger/src/resident/rows';
import { choose, homeOf } from '../../workers/ledger/src/resident/router';
import { Seals, type Sealed } from '../../workers/ledger/src/resident/seal';

const object = (text: string) => parse(text) as JsonObject;
const short = (error: Invalid) => ({ refused: error.field.split(/[.[]/)[0], code: error.code });

async function refusals(run: () => Promise<unknown>, told: (error: Invalid) => unknown): Promise<unknown> {
    try {
        return await run();
    } catch (error) {
        if (error instanceof Invalid) return told(error);
        throw error;
    }
}

function bytes(text: string) {
    return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

const ANSWERS: Record<string, (...args: never[]) => unknown> = {
    fingerprint: (kind: string, text: string) => fingerprint(kind, parse(text)),
    plain: (text: string) => stringify(parse(text)),
    sorted: (text: string) => stringify(parse(text), true),
    home: (id: string) => homeOf(id),
    mark: (lane: string) => markOf(lane),
    route: (members: [string, number][], key: string) => choose(members.map(([name, weight]) => ({ name, weight })), key),
    compile: (kind: string, text: string, account: string, policy: Policy) =>
        refusals(async () => {
            const body = await compile(kind, object(text), account);
            checkPolicy(body, account, policy);
            return {
                receiver: body.receiver,
                actions: hex(body.actionBytes),
                key: body.key,
                own: ownEffects(body.receiver, body.actions, account),
                deposit: depositAtRisk(body.actions).toString(),
                receivers: receiversOf(body),
            };
        }, short),
    sign: async (secret: string, lane: string, kind: string, text: string, nonce: string, block: string) => {
        const signer = await Signer.open(parseLane(lane), secret);
        const { raw, hash } = await signer.sign(await compile(kind, object(text), parseLane(lane).account), BigInt(nonce), block);
        return { raw: hex(raw), hash };
    },
    delegate: (text: string) =>
        refusals(async () => {
            const signed = readDelegate(parse(text));
            return { hash: await delegateHash(signed), sender: await senderKey(signed), bare: hex(encodeSigned(signed)) };
        }, short),
    check_delegate: (text: string, policy: Policy, height: string) =>
        refusals(async () => {
            const body = await compile('near.delegate', { signed_delegate: parse(text) }, 'relayer.near');
            const signed = delegateOf(body);
            if (signed === undefined) throw new Error('no delegate');
            await checkSignature(signed);
            checkExpiry(signed, BigInt(height), policy);
            checkDelegatePolicy(signed, policy);
            return 'passes';
        }, ({ field, code }) => ({ refused: field, code })),
    check_nonce: (text: string, view: string) =>
        refusals(async () => {
            const key = parse(view) as { nonce: bigint; height: bigint; permission: JsonObject | null } | null;
            checkDelegateNonce(readDelegate(parse(text)), key === null ? undefined : { ...key, blockHash: 'x', gasKey: false });
            return Promise.resolve('passes');
        }, ({ field, code }) => ({ refused: field, code })),
    verdict: (body: string, status: number, waited: boolean) => verdictOf(readError(parse(body), status), waited),
    failure: (sort: Failure['sort']) => verdictOf({ sort, message: '' }),
    judge: (kind: string, payload: string, status: string) => {
        try {
            return JSON.parse(packOutcome(judge(kind, object(payload), parse(status), 'the-hash', (2n ** 60n + 1n).toString())));
        } catch (error) {
            if (error instanceof BadAnswer) return 'bad answer';
            throw error;
        }
    },
    seal: async (secret: string, intent: Sealed) => {
        const seals = await Seals.open(secret);
        const seal = await seals.seal(intent);
        if ((await seals.check(intent, seal)) !== 'good') throw new Error('its own seal does not hold');
        if ((await seals.check({ ...intent, life: 'other' }, seal)) !== 'wrong') throw new Error('a seal holds for another life');
        return seal;
    },
    pack_attempt: (told: Record<string, string>, raw: string, receiver: string) => {
        const attempt = {
            nonce: told['nonce'] ?? '',
            hash: told['hash'] ?? '',
            raw: '',
            signedAt: 123,
            baseHeight: BigInt(told['base_height'] ?? 0),
            validUntil: BigInt(told['valid_until'] ?? 0),
        };
        return hex(Uint8Array.from(atob(packAttempt(attempt, bytes(raw), receiver)), (character) => character.charCodeAt(0)));
    },
    pack_final: (row: RecordRow, lane: string) => {
        const { final } = packFinal(row, lane) as { final: { slot: number; record: string } };
        return { slot: final.slot, record: final.record };
    },
    decide: (told: Record<string, never>) =>
        decide({ cancelled: false, verb: '', doubt: null, ...told } as never, { includeWithinMs: 5_000, holdAfterMs: 100_000 }).do,
};

export async function answer(ask: string, args: never[]): Promise<unknown> {
    const found = ANSWERS[ask];
    if (found === undefined) throw new Error(`no answer to ${ask}`);
    return (await found(...args)) as unknown;
}
