/**
 * The promises of every client (tests/client/promises.py), kept by this one. No test runner is needed: vitest hosts
 * them on Node, and `run.ts` runs them on every other runtime.
 */
import {
    AbortedError,
    IdempotencyKeyReusedError,
    IntentFailedError,
    InvalidInputError,
    NotFoundError,
    StillWaitingError,
    TxManagerError,
    UnauthorizedError,
    UnreachableError,
    submitBatch,
    submitMany,
    verifyWebhook,
    type BatchIntent,
    type TxManager,
} from '../src/index.js';
import { World } from './world.js';

type Promised = (world: World) => Promise<void>;
const KEY = 'ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp';
const BEYOND = 2n ** 53n + 1n;
const NEAR = 10n ** 24n;
const COUNT = { contract_id: 'counter.near', method_name: 'increment', args: {} };

export const promises: Record<string, Promised> = {
    async webhook(world) {
        const record = await world.manager().submit('near.transfer', transfer(1n), { idempotencyKey: newKey(), waitS: 20 });
        const { signature, body } = (await world.ask('delivery', { key: record.idempotency_key })) as Record<'signature' | 'body', string>;
        const { secret } = world.places;
        equal(await verifyWebhook(secret, signature, body), true);
        equal(await verifyWebhook(secret, signature, new TextEncoder().encode(body)), true);
        equal(await verifyWebhook('another', signature, body), false);
        equal(await verifyWebhook(secret, signature, `${body} `), false);
        equal(await verifyWebhook(secret, signature, body, { now: Date.now() / 1000 + 301 }), false);
        equal(await verifyWebhook(secret, signature, body, { now: NaN }), false);
        const at = /t=(\d+)/.exec(signature)?.[1] ?? '';
        equal(await verifyWebhook(secret, signature.replace(at, (BigInt(at) + 1n).toString()), body), false);
        for (const nonsense of [null, undefined, '', 't=,v1=', `t=${at}`, 'v1=00', 't=1e9,v1=zz']) {
            equal(await verifyWebhook(secret, nonsense, body), false);
        }
    },

    async lost_answer(world) {
        const gain = await Gain.start(world);
        await world.ask('lose_answer');
        const options = { idempotencyKey: newKey(), waitS: 20 };
        const record = await world.manager('front').submit('near.transfer', transfer(7n, gain.account), options);
        equal([record.replayed, record.status, record.attempts.length], [true, 'done', 1]);
        equal(await gain.total(), 7n);
    },

    async leaky_network(world) {
        const gain = await Gain.start(world);
        const leaky = world.manager('leaky');
        for (let n = 0n; n < 9n; n += 1n) {
            const paid = transfer(10n ** n, gain.account);
            const { idempotency_key } = await leaky.submit('near.transfer', paid, { idempotencyKey: newKey(), waitS: 20 });
            equal((await leaky.wait(idempotency_key)).status, 'done');
        }
        equal(await gain.total(), 111_111_111n);
    },

    async retry_after(world) {
        const before = await world.answers();
        const began = performance.now();
        const slow = world.manager('direct', 'slow');
        // Two at once, then one every two seconds.
        for (let n = 0; n < 3; n += 1) await slow.submit('near.transfer', transfer(1n), { idempotencyKey: newKey() });
        const after = await world.answers();
        const took = performance.now() - began;
        holds(took >= 1000 && took < 10_000, `took ${took} ms`);
        const refused = (after['429'] ?? 0) - (before['429'] ?? 0);
        holds(refused >= 1 && refused <= 3, `${refused} times 429`);
    },

    async unconfirmed(world) {
        const gain = await Gain.start(world);
        const before = (await world.answers())['503'] ?? 0;
        const direct = world.manager();
        await world.ask('ledger_away', { seconds: 2 });
        const options = { idempotencyKey: newKey(), waitS: 20 };
        const { idempotency_key } = await direct.submit('near.transfer', transfer(3n, gain.account), options);
        equal((await direct.wait(idempotency_key)).status, 'done');
        holds(((await world.answers())['503'] ?? 0) > before, 'no 503 was met');
        equal(await gain.total(), 3n);
    },

    async api_restart(world) {
        const direct = world.manager();
        await world.ask('stall');
        const { idempotency_key } = await direct.submit('near.transfer', transfer(1n), { idempotencyKey: newKey() });
        const waiting = direct.wait(idempotency_key, { waitS: 40 });
        await world.ask('restart_api');
        await world.ask('unstall');
        equal((await waiting).status, 'done');
    },

    async resumed_stream(world) {
        await world.ask('stall');
        const { idempotency_key } = await world.manager().submit('near.transfer', transfer(1n), { idempotencyKey: newKey() });
        const heard: string[] = [];
        for await (const event of world.manager('front').follow(idempotency_key)) {
            heard.push(event.status);
            if (heard.length === 1) {
                await world.ask('cut');
                await world.ask('unstall');
            }
        }
        equal(heard, ['queued', 'inflight', 'done']);
    },

    async exact_amounts(world) {
        const gain = await Gain.start(world);
        const direct = world.manager();
        const idempotencyKey = newKey();
        const options = { idempotencyKey, waitS: 20, metadata: { order: BEYOND, nested: [BEYOND.toString()] } };
        const record = await direct.submit('near.transfer', transfer(BEYOND, gain.account), options);
        equal([record.status, record.metadata], ['done', { order: BEYOND.toString(), nested: [BEYOND.toString()] }]);
        equal(await gain.total(), BEYOND);
        equal(record.nonce, record.attempts[0]?.nonce);
        holds(/^\d+$/.test(record.nonce ?? ''), 'the nonce is no decimal string');
        // What another client stored as a JSON number comes back to the last digit, too.
        const key = newKey();
        const reply = await fetch(`${world.places.direct}/v1/intents`, {
            method: 'POST',
            headers: { 'content-type': 'application/json', authorization: 'Bearer token-all', 'idempotency-key': key },
            body: `{"pool":"main","kind":"near.transfer","payload":{"receiver_id":"dev1.near","amount":"1"},"metadata":{"a":${BEYOND},"b":-${BEYOND},"c":"\\"9007199254740993","d":1.5}}`,
        });
        equal(reply.status, 202);
        await reply.text();
        equal((await direct.wait(key)).metadata, { a: `${BEYOND}`, b: `-${BEYOND}`, c: '"9007199254740993', d: 1.5 });
        // A number that lost its digits already is refused before anything is sent.
        await rejects(direct.submit('near.transfer', { receiver_id: 'dev1.near', amount: 2 ** 53 + 2 }), TypeError, 'amount');
    },

    async abort(world) {
        const direct = world.manager();
        await world.ask('stall');
        const { idempotency_key } = await direct.submit('near.transfer', transfer(1n), { idempotencyKey: newKey() });
        const controller = new AbortController();
        const waiting = direct.wait(idempotency_key, { signal: controller.signal });
        setTimeout(() => {
            controller.abort('enough');
        }, 200);
        const began = performance.now();
        const error = await rejects(waiting, AbortedError);
        holds(performance.now() - began < 5000, 'it went on waiting');
        equal(error.cause, 'enough');
        await rejects(direct.get(idempotency_key, { signal: controller.signal }), AbortedError);
        await world.ask('unstall');
        equal((await direct.wait(idempotency_key)).status, 'done');
    },

    async abort_stream(world) {
        const direct = world.manager();
        const controller = new AbortController();
        let heard = 0;
        const listening = (async () => {
            for await (const event of direct.followPool('main', { signal: controller.signal })) heard += event.id.length;
        })();
        while (heard === 0) await direct.submit('near.transfer', transfer(1n), { idempotencyKey: newKey(), waitS: 20 });
        controller.abort();
        const began = performance.now();
        await rejects(listening, AbortedError);
        holds(performance.now() - began < 2000, 'the stream went on');
    },

    async time_out(world) {
        const gain = await Gain.start(world);
        const idempotencyKey = newKey();
        const front = world.manager('front', 'all', { retryForMs: 1000, timeoutMs: 400 });
        await world.ask('silence');
        const began = performance.now();
        const error = await rejects(front.submit('near.transfer', transfer(5n, gain.account), { idempotencyKey }), UnreachableError);
        const took = performance.now() - began;
        holds(took >= 400 && took < 5000, `took ${took} ms`);
        equal([error.retryable, error.cause instanceof Error], [true, true]);
        await world.ask('heal');
        const patient = world.manager('front');
        await patient.submit('near.transfer', transfer(5n, gain.account), { idempotencyKey });
        equal((await patient.wait(idempotencyKey)).status, 'done');
        equal(await gain.total(), 5n);
    },

    async still_waiting(world) {
        const direct = world.manager();
        await world.ask('stall');
        const { idempotency_key } = await direct.submit('near.transfer', transfer(1n), { idempotencyKey: newKey() });
        const error = await rejects(direct.wait(idempotency_key, { waitS: 0.3 }), StillWaitingError);
        equal([error.record?.idempotency_key, error.retryable], [idempotency_key, true]);
        await world.ask('unstall');
        equal((await direct.wait(idempotency_key)).status, 'done');
    },

    async not_repeated(world) {
        const direct = world.manager();
        const idempotencyKey = newKey();
        await direct.submit('near.transfer', transfer(1n), { idempotencyKey, waitS: 20 });
        const before = await world.answers();
        const reused = await rejects(direct.submit('near.transfer', transfer(2n), { idempotencyKey }), IdempotencyKeyReusedError);
        equal([reused.retryable, reused.status, reused.code], [false, 422, 'idempotency_key_reused']);
        holds(reused.kept?.includes('stands unchanged') === true, 'it does not say what was kept');
        const invalid = await rejects(direct.submit('near.transfer', transfer(1n, 'X'), { idempotencyKey: newKey() }), InvalidInputError);
        equal(invalid.field, 'receiver_id');
        await rejects(direct.get(newKey()), NotFoundError);
        const after = await world.answers();
        equal((after['422'] ?? 0) - (before['422'] ?? 0), 2);
        equal((after['404'] ?? 0) - (before['404'] ?? 0), 1);
    },

    async execute(world) {
        const direct = world.manager();
        const idempotencyKey = newKey();
        const first = await direct.execute('near.function_call', COUNT, { idempotencyKey });
        const again = await direct.execute('near.function_call', COUNT, { idempotencyKey });
        equal([again.txHash, again.outcome], [first.txHash, first.outcome]);
        equal([first.txHash, first.outcome], [first.record.tx_hash, first.record.outcome?.result]);
        const failing = direct.execute('near.function_call', { ...COUNT, method_name: 'fail' }, { idempotencyKey: newKey() });
        equal((await rejects(failing, IntentFailedError)).record?.status, 'failed');
        await world.ask('stall');
        const slow = direct.execute('near.function_call', COUNT, { idempotencyKey: newKey(), waitS: 0.3 });
        await rejects(slow, StillWaitingError);
        await world.ask('unstall');
    },

    async recover(world) {
        const direct = world.manager();
        const message_id = newKey();
        const recovery = { account_id: 'alice.near', message_id, contract_id: 'counter.near', method_name: 'increment', args: { by: 1 } };
        const first = await direct.recover(recovery, { waitS: 20 });
        const again = await direct.recover(recovery, { waitS: 20 });
        equal([first.idempotency_key, first.status], [`recovery:alice.near:${message_id}`, 'done']);
        equal([again.replayed, again.tx_hash], [true, first.tx_hash]);
    },

    async create_account(world) {
        const direct = world.manager();
        const account = { new_account_id: `c${newKey()}.${world.places.account}`, public_key: KEY, initial_balance: NEAR / 100n };
        const first = await direct.createAccount(account, { waitS: 20 });
        const again = await direct.createAccount(account, { waitS: 20 });
        equal([first.status, again.replayed, again.tx_hash], ['done', true, first.tx_hash]);
        equal(await world.balance(account.new_account_id), NEAR / 100n);
    },

    async many(world) {
        const gain = await Gain.start(world);
        const wanted = Array.from({ length: 1_000 }, () => one(transfer(1n, gain.account)));
        const results = await gathered(submitMany(world.manager('leaky'), wanted));
        equal(results.map(({ index }) => index).sort((a, b) => a - b), [...wanted.keys()]);
        equal([...new Set(results.map(({ result }) => result))].sort(), ['accepted', 'replayed']);
        equal(new Set(results.map(({ record }) => record?.idempotency_key)).size, 1_000);
        const direct = world.manager();
        for (const { record } of await submitBatch(direct, wanted)) {
            if (record !== undefined && record.status !== 'done') await direct.wait(record.idempotency_key, { waitS: 120 });
        }
        equal(await gain.total(), 1_000n);
    },

    async batch(world) {
        const direct = world.manager();
        const wanted = [one(transfer(1n)), one(transfer(-1n)), { kind: 'near.transfer', payload: transfer(1n) } as const];
        const first = await submitBatch(direct, wanted);
        const again = await submitBatch(direct, wanted);
        equal(first.map(({ result }) => result), ['accepted', 'refused', 'accepted']);
        holds(first[1]?.error instanceof InvalidInputError, 'the refused one has its error');
        equal(again.map(({ result }) => result), ['replayed', 'refused', 'accepted']);
        await rejects(submitBatch(direct, []), InvalidInputError);
    },

    async paced(world) {
        const wanted = Array.from({ length: 4 }, () => one(transfer(1n)));
        // Two at once, then one every two seconds.
        const results = await gathered(submitMany(world.manager('direct', 'slow'), wanted));
        equal(results.map(({ index, result }) => [index, result]), [0, 1, 2, 3].map((index) => [index, 'accepted']));
    },

    async silent_about_secrets(world) {
        const token = 'token-nobody-knows';
        const stranger = world.manager('direct', 'all', { token });
        const refused = await rejects(stranger.lanes(), UnauthorizedError);
        const nowhere = world.manager('direct', 'all', { token, baseUrl: 'http://127.0.0.1:9', retryForMs: 100 });
        const lost = await rejects(nowhere.lanes(), UnreachableError);
        const shown = [show(stranger), show(refused), show(lost), refused.message, lost.message];
        holds(!shown.some((text) => text.includes(token)), 'the token is shown');
    },
};

/** How much an account of its own has received. */
class Gain {
    private constructor(
        private readonly world: World,
        readonly account: string,
        private readonly before: bigint,
    ) {}

    static async start(world: World): Promise<Gain> {
        const account = `g${newKey()}.${world.places.account}`;
        const made = { new_account_id: account, public_key: KEY, initial_balance: NEAR };
        equal((await world.manager().createAccount(made, { waitS: 20 })).status, 'done');
        return new Gain(world, account, await world.balance(account));
    }

    async total(): Promise<bigint> {
        return (await this.world.balance(this.account)) - this.before;
    }
}

function transfer(amount: bigint, receiver_id = 'dev1.near'): Parameters<typeof TxManager.prototype.submit<'near.transfer'>>[1] {
    return { receiver_id, amount };
}

function one(payload: ReturnType<typeof transfer>): BatchIntent {
    return { kind: 'near.transfer', payload, idempotencyKey: newKey() };
}

async function gathered<T>(results: AsyncIterable<T>): Promise<T[]> {
    const all: T[] = [];
    for await (const result of results) all.push(result);
    return all;
}

function newKey(): string {
    return crypto.randomUUID().replaceAll('-', '').slice(0, 16);
}

function holds(condition: boolean, otherwise: string): void {
    if (!condition) throw new Error(otherwise);
}

function equal(found: unknown, wanted: unknown): void {
    const [left, right] = [show(found), show(wanted)];
    if (left !== right) throw new Error(`${left} is not ${right}`);
}

/** Everything enumerable, errors and bigints included. */
function show(value: unknown): string {
    const shown = JSON.stringify(value, (_, found: unknown) => {
        if (typeof found === 'bigint') return `${found.toString()}n`;
        return found instanceof Error ? Object.fromEntries(Object.getOwnPropertyNames(found).map((name) => [name, Reflect.get(found, name) as unknown])) : found;
    }) as string | undefined;
    return shown ?? 'undefined';
}

type Thrown<E> = abstract new (...given: never[]) => E;

async function rejects<E extends Error>(work: Promise<unknown>, kind: Thrown<E>, words = ''): Promise<E> {
    try {
        await work;
    } catch (error) {
        if (error instanceof kind && error.message.includes(words)) {
            if (kind !== (TypeError as unknown) && !(error instanceof TxManagerError)) throw new Error('not of the tree', { cause: error });
            return error;
        }
        throw new Error(`expected ${kind.name}, got ${String(error)}`, { cause: error });
    }
    throw new Error(`expected ${kind.name}, nothing was thrown`);
}
