/**
 * A relay for wallets: what used to sign and queue in this process is one call each. Run as many as you like; none of
 * them holds a key. A user who taps twice, a phone that retries and a balancer that sends the retry to another process
 * all get the same answer, because the key is derived from what they ask for.
 *
 *     POST /create_account  {"account_id": "alice", "public_key": "ed25519:..."}        sponsor an account
 *     POST /relay           [1, 2, ...] or {"signed_delegate_action": "<base64>"}       pay for a user's own action
 *     POST /send_meta_tx    the SignedDelegateAction as nearcore's JSON                 the same
 *     POST /recover         {"account_id": "...", "message_id": "...", "public_key"}    recover an account, once per message
 *     GET  /status/:key                                                                 how an earlier request ended
 */
import { TxManager, TxManagerError, isFinal, type IntentRecord } from '@txmanager/client';
import express, { type ErrorRequestHandler, type RequestHandler } from 'express';

const WAIT_S = 20; // what takes longer is answered `pending`, and goes on
const {
    TXMANAGER_URL = 'http://127.0.0.1:8080',
    TXMANAGER_TOKEN,
    PARENT = 'dev0.near',
    INITIAL_BALANCE = '100000000000000000000000',
    RECOVERY_CONTRACT = 'recovery.near',
    RECOVERY_METHOD = 'recover',
    PORT = '3000',
} = process.env;
const manager = new TxManager({ baseUrl: TXMANAGER_URL, token: TXMANAGER_TOKEN });

class Wrong extends Error {}

const createAccount = answered(async (body) => {
    const name = text(body, 'account_id');
    if (!/^[a-z0-9_-]{2,32}$/.test(name)) throw new Wrong('account_id: must be a name without dots');
    const account = { new_account_id: `${name}.${PARENT}`, public_key: text(body, 'public_key'), initial_balance: INITIAL_BALANCE };
    return await manager.createAccount(account, { waitS: WAIT_S });
});

const relay = answered(async (body) => {
    const bytes = Array.isArray(body) ? Buffer.from(body as number[]).toString('base64') : text(body, 'signed_delegate_action');
    return await manager.relay(bytes, { waitS: WAIT_S });
});

const sendMetaTx = answered(async (body) => await manager.relay(object(body), { waitS: WAIT_S }));

const recover = answered(async (body) => {
    const [account_id, message_id, public_key] = [text(body, 'account_id'), text(body, 'message_id'), text(body, 'public_key')];
    const args = { account_id, public_key };
    const recovery = { account_id, message_id, contract_id: RECOVERY_CONTRACT, method_name: RECOVERY_METHOD, args };
    return await manager.recover(recovery, { waitS: WAIT_S });
});

const status: RequestHandler<{ key: string }> = async (request, response) => {
    answer(response, await manager.get(request.params.key));
};

function answered(act: (body: unknown) => Promise<IntentRecord>): RequestHandler {
    return async (request, response) => {
        answer(response, await act(request.body));
    };
}

/** What a wallet needs to know, and no more. */
function answer(response: express.Response, record: IntentRecord): void {
    const shown = { key: record.idempotency_key, transaction_hash: record.tx_hash };
    if (record.status === 'done') response.json({ ...shown, status: 'done' });
    else if (isFinal(record.status)) response.status(422).json({ ...shown, status: record.status, error: record.error?.['message'] });
    else response.status(202).json({ ...shown, status: 'pending' });
}

const problem: ErrorRequestHandler = (error: unknown, _request, response, _next) => {
    if (error instanceof Wrong) response.status(400).json({ error: error.message });
    else if (error instanceof TxManagerError && error.retryable) response.status(503).set('retry-after', '1').json({ error: 'busy; ask again' });
    else if (error instanceof TxManagerError && [400, 404, 409, 413, 422].includes(error.status ?? 0))
        response.status(error.status ?? 400).json({ error: error.problem.detail, field: error.field });
    else if (error instanceof SyntaxError) response.status(400).json({ error: 'the body is not JSON' });
    else response.status(500).json({ error: 'the relay is not set up correctly' });
};

function object(body: unknown): Record<string, unknown> {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) throw new Wrong('body: must be a JSON object');
    return body as Record<string, unknown>;
}

function text(body: unknown, name: string): string {
    const value = object(body)[name];
    if (typeof value !== 'string') throw new Wrong(`${name}: is required`);
    return value;
}

const app = express().use(express.json({ limit: '256kb' }));
app.post('/create_account', createAccount).post('/relay', relay).post('/send_meta_tx', sendMetaTx).post('/recover', recover);
app.get('/status/:key', status).use(problem);
app.listen(Number(PORT), '127.0.0.1', () => console.log(`relay listens on http://127.0.0.1:${PORT}`));
