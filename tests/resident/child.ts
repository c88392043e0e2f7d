/**
 * The loop of a resident lane as a child of the simulator: each effect is a JSON line, answered by the next line for it. A
 * loop asks for one thing at a time, so the two go in lockstep, and the same answers give the same run.
 */
import { createInterface } from 'node:readline';
import { parse, stringify, type Json } from '../../workers/ledger/src/near/exact';
import { parseLane } from '../../workers/ledger/src/near/names';
import { Signer } from '../../workers/ledger/src/near/transaction';
import type { Failure } from '../../workers/ledger/src/near/verdicts';
import { drive } from '../../workers/ledger/src/resident/loop';
import { Seals } from '../../workers/ledger/src/resident/seal';
import { StepRefused } from '../../workers/ledger/src/resident/world';

interface Start {
    start: string;
    lane: string;
    secret: string;
    seal: string;
    token: string;
    now: number;
    run_ms: number;
    direct: boolean[];
    validity: string;
    epoch: string;
    include_within_ms: number;
    hold_after_ms: number;
    retention_ms: number;
}

interface Answer {
    answer: string;
    now: number;
    value?: unknown;
    /** A node's answer, as JSON text: its numbers stay exact. */
    text?: string;
    failure?: Failure & { data_text?: string };
    refused?: [string, Record<string, string | number>];
    /** The store did not answer. */
    away?: boolean;
}

const waiting = new Map<string, (answer: Answer) => void>();

function say(line: object): void {
    process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function run(told: Start): Promise<void> {
    const id = told.start;
    let now = told.now;
    const effect = (...ask: unknown[]) =>
        new Promise<Answer>((resolve, reject) => {
            waiting.set(id, (answer) => {
                now = answer.now;
                if (answer.refused !== undefined) reject(new StepRefused(...answer.refused));
                else if (answer.away === true) reject(new Error('the store did not answer'));
                else resolve(answer);
            });
            say({ id, ask });
        });
    const settings = {
        nodes: told.direct.map((direct) => ({ url: '', direct })),
        policy: {},
        validityBlocks: BigInt(told.validity),
        epochBlocks: BigInt(told.epoch),
        includeWithinMs: told.include_within_ms,
        holdAfterMs: told.hold_after_ms,
        retentionMs: told.retention_ms,
        reserve: 10n ** 22n,
        gasPrice: 10n ** 9n,
    };
    try {
        await drive({
            lane: told.lane,
            settings,
            signer: await Signer.open(parseLane(told.lane), told.secret),
            seals: await Seals.open(told.seal),
            step: async (operation, args) => (await effect('step', operation, args)).value,
            home: async (number, operation, args) => (await effect('home', number, operation, args)).value,
            ask: async (node, method, params, timeoutMs) => {
                const { text, failure } = await effect('ask', node, method, stringify(params), timeoutMs);
                if (failure === undefined) return { ok: parse(text ?? 'null') };
                const data: Json = failure.data_text === undefined ? null : parse(failure.data_text);
                return { failure: { ...failure, data } };
            },
            now: () => now,
            sleep: async (ms) => {
                await effect('sleep', ms);
            },
            token: () => told.token,
            spent: () => now >= told.now + told.run_ms,
            log: () => undefined,
        });
        say({ id, done: true });
    } catch (error) {
        say({ id, threw: error instanceof Error ? error.message : 'unknown' });
    }
}

createInterface({ input: process.stdin }).on('line', (line) => {
    const told = JSON.parse(line) as Start | Answer | { drop: string };
    if ('start' in told) void run(told);
    else if ('drop' in told) waiting.delete(told.drop);
    else waiting.get(told.answer)?.(told);
});
