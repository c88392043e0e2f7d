/**
 * A relay for wallets on Cloudflare Workers. Every request may meet a fresh isolate: nothing is kept here, no queue, no
 * nonce and no key. A retry that reaches another isolate gets the same answer, because the idempotency key is derived
 * from what is asked for.
 *
 *     POST /create_account  {"account_id": "alice", "public_key": "ed25519:..."}        sponsor an account
 *     POST /relay           [1, 2, ...] or {"signed_delegate_action": "<base64>"}       pay for a user's own action
 *     POST /send_meta_tx    the SignedDelegateAction as nearcore's JSON                 the same
 *     POST /recover         {"account_id": "...", "message_id": "...", "public_key"}    recover an account, once per message
 *     GET  /status/:key                                                                 how an earlier request ended
 */
import { TxManager, TxManagerError, isFinal, type Binding, type IntentRecord } from '@txmanager/client';

interface Env {
    /** A binding to the API of txmanager (a VPC service, or another Worker in front of it); without it TXMANAGER_URL. */
    readonly TXMANAGER?: Binding;
    readonly TXMANAGER_URL?: string;
    readonly TXMANAGER_TOKEN: string;
    readonly PARENT: string;
    readonly INITIAL_BALANCE: string;
    readonly RECOVERY_CONTRACT: string;
    readonly RECOVERY_METHOD: string;
}

type Body = Readonly<Record<string, unknown>>;
type Route = (manager: TxManager, body: unknown, env: Env) => Promise<IntentRecord>;

class Wrong extends Error {}

const wait = { waitS: 20 }; // what takes longer is answered `pending`, and goes on

const ROUTES: Readonly<Record<string, Route>> = {
    async '/create_account'(manager, body, env) {
        const name = text(body, 'account_id');
        if (!/^[a-z0-9_-]{2,32}$/.test(name)) throw new Wrong('account_id: must be a name without dots');
        const new_account_id = `${name}.${env.PARENT}`;
        return await manager.createAccount({ new_account_id, public_key: text(body, 'public_key'), initial_balance: env.INITIAL_BALANCE }, wait);
    },
    async '/relay'(manager, body) {
        const bytes = Array.isArray(body) ? btoa(String.fromCharCode(...(body as number[]))) : text(body, 'signed_delegate_action');
        return await manager.relay(bytes, wait);
    },
    async '/send_meta_tx'(manager, body) {
        return await manager.relay(object(body), wait);
    },
    async '/recover'(manager, body, env) {
        const [account_id, message_id, public_key] = [text(body, 'account_id'), text(body, 'message_id'), text(body, 'public_key')];
        const call = { contract_id: env.RECOVERY_CONTRACT, method_name: env.RECOVERY_METHOD, args: { account_id, public_key } };
        return await manager.recover({ account_id, message_id, ...call }, wait);
    },
};

const worker = {
    async fetch(request: Request, env: Env): Promise<Response> {
        const where = env.TXMANAGER === undefined ? { baseUrl: env.TXMANAGER_URL } : { binding: env.TXMANAGER };
        const manager = new TxManager({ ...where, token: env.TXMANAGER_TOKEN });
        const path = new URL(request.url).pathname;
        try {
            const status = /^\/status\/(.+)$/.exec(path)?.[1];
            if (request.method === 'GET' && status !== undefined) return answer(await manager.get(decodeURIComponent(status)));
            const route = ROUTES[path];
            if (request.method !== 'POST' || route === undefined) return Response.json({ error: 'no such path' }, { status: 404 });
            return answer(await route(manager, await request.json(), env));
        } catch (error) {
            return problem(error);
        }
    },
};
export { worker as default };

/** What a wallet needs to know, and no more. */
function answer(record: IntentRecord): Response {
    const shown = { key: record.idempotency_key, transaction_hash: record.tx_hash };
    if (record.status === 'done') return Response.json({ ...shown, status: 'done' });
    if (isFinal(record.status)) return Response.json({ ...shown, status: record.status, error: record.error?.['message'] }, { status: 422 });
    return Response.json({ ...shown, status: 'pending' }, { status: 202 });
}

function problem(error: unknown): Response {
    if (error instanceof Wrong) return Response.json({ error: error.message }, { status: 400 });
    if (error instanceof SyntaxError) return Response.json({ error: 'the body is not JSON' }, { status: 400 });
    if (error instanceof TxManagerError && error.retryable)
        return Response.json({ error: 'busy; ask again' }, { status: 503, headers: { 'retry-after': '1' } });
    if (error instanceof TxManagerError && [400, 404, 409, 413, 422].includes(error.status ?? 0))
        return Response.json({ error: error.problem.detail, field: error.field }, { status: error.status ?? 400 });
    return Response.json({ error: 'the relay is not set up correctly' }, { status: 500 });
}

function object(body: unknown): Body {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new Wrong('body: must be a JSON object');
    return body as Body;
}

function text(body: unknown, name: string): string {
    const value = object(body)[name];
    if (typeof value !== 'string') throw new Wrong(`${name}: is required`);
    return value;
}
