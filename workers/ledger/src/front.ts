/**
 * The Worker in front: checks who asks, and hands each call to its object. Calls of one object stay in their order; what
 * one object cannot do now does not fail the others.
 */

import { identify, type Asked } from './auth';
import type { Answer, Call, Env, LedgerObject } from './object';

const MOST_OBJECTS = 40;
const MOST_BYTES = 32 * 1024 * 1024;

type Wanted = [object: string, operation: string, args: unknown];

export async function front(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (parseInt(request.headers.get('content-length') ?? '0', 10) > MOST_BYTES) return said(413, { error: 'too_large' });
    const body = await request.arrayBuffer();
    const asked = await identify(request, body, env, Date.now());
    if (asked === null) return said(401, { error: 'unauthorized', now: Date.now() });
    if (pathname === '/ledger/v1/run' && request.method === 'POST') return run(body, env, asked);
    if (pathname === '/ledger/v1/hints' && request.headers.get('upgrade') === 'websocket') {
        const lane = stubOf(searchParams.get('object') ?? '', env);
        return lane === null ? said(404, { error: 'unknown_object' }) : lane.fetch(request);
    }
    return said(404, { error: 'unknown_path' });
}

async function run(body: ArrayBuffer, env: Env, asked: Asked): Promise<Response> {
    const { calls } = JSON.parse(new TextDecoder().decode(body)) as { calls: Wanted[] };
    const groups = new Map<string, number[]>();
    calls.forEach(([object], index) => {
        const group = groups.get(object);
        if (group === undefined) groups.set(object, [index]);
        else group.push(index);
    });
    if (groups.size > MOST_OBJECTS) return said(400, { error: 'too_many_objects' });
    const answers: Answer[] = [];
    await Promise.all(
        [...groups].map(async ([object, indexes]) => {
            const told = indexes.map((index): Call => {
                const [, operation, args] = calls[index] ?? ['', '', null];
                return { operation, args, request: `${asked.request}:${index}` };
            });
            const found = await ask(stubOf(object, env), asked, told);
            indexes.forEach((index, n) => (answers[index] = found[n] ?? away('no answer')));
        }),
    );
    return said(200, { answers });
}

/** A stub that failed once may go on failing: each request makes its own. */
async function ask(stub: DurableObjectStub<LedgerObject> | null, asked: Asked, calls: Call[]): Promise<Answer[]> {
    if (stub === null) return calls.map(() => ({ error: 'unknown_object', told: {} }));
    try {
        const answers: Promise<Answer[]> = Promise.resolve(stub.run(asked.role, calls));
        return await answers;
    } catch (error) {
        // Perhaps nothing was written, perhaps all of it: every call may be repeated.
        const why = error instanceof Error ? error.message : 'unknown';
        return calls.map(() => away(why));
    }
}

function away(why: string): Answer {
    return { error: 'unavailable', told: { why: why.slice(0, 200) } };
}

function stubOf(object: string, env: Env): DurableObjectStub<LedgerObject> | null {
    const at = object.indexOf(':');
    const name = object.slice(at + 1);
    switch (object.slice(0, at)) {
        case 'home':
            return named(env.HOME, name);
        case 'lane':
            return named(env.LANE, name);
        case 'registry':
            return named(env.REGISTRY, name);
        default:
            return null;
    }
}

function named(objects: DurableObjectNamespace<LedgerObject>, name: string): DurableObjectStub<LedgerObject> {
    return objects.get(objects.idFromName(name));
}

function said(status: number, body: object): Response {
    return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
}
