// One session of near-api-js, unchanged, against a devnet. Prints one JSON line per step; the test judges them.
import { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions } from 'near-api-js';

const { url, admin, relayer, user } = JSON.parse(process.argv[2]);
const provider = new JsonRpcProvider({ url }, { retries: 1 });

const as = (who, key = who.private_key) => new Account(who.account_id, provider, KeyPairSigner.fromSecretKey(key));
const tell = (step, told) =>
    console.log(JSON.stringify({ step, told }, (_, value) => (typeof value === 'bigint' ? value.toString() : value)));
const attempt = async (step, act) => {
    try {
        tell(step, { answer: await act() });
    } catch (error) {
        tell(step, { error: error.constructor.name, message: String(error.message) });
    }
};
const fault = (told) =>
    fetch(`${admin}/faults`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(told),
    });

const me = as(relayer);
const fresh = KeyPair.fromRandom('ed25519');
const made = { account_id: 'js-made.near', private_key: fresh.toString() };

tell('status', (await provider.viewNodeStatus()).chain_id);
tell('block', (await provider.viewBlock({ finality: 'final' })).header.height);
tell('gas price', (await provider.viewGasPrice()).gas_price);

const before = (await provider.viewAccount({ accountId: user.account_id })).amount;
const sent = await me.transfer({ receiverId: user.account_id, amount: 5n });
tell('transfer', (await provider.viewAccount({ accountId: user.account_id })).amount - before);
const named = { txHash: sent.transaction.hash, accountId: relayer.account_id };
tell('status by hash', (await provider.viewTransactionStatus(named)).transaction.hash === sent.transaction.hash);
tell('status with receipts', (await provider.viewTransactionStatusWithReceipts(named)).receipts.length);

const creation = { newAccountId: made.account_id, publicKey: fresh.getPublicKey(), nearToTransfer: 10n ** 24n };
tell('create', (await me.createAccount(creation)).status);
tell('create again', (await me.createAccount(creation)).status);
const sub = { accountOrPrefix: 'sub', publicKey: fresh.getPublicKey(), nearToTransfer: 10n ** 24n };
tell('create sub-account', (await me.createSubAccount(sub)).status);
await attempt('create sub-account again', () => me.createSubAccount(sub));
tell('state', (await as(made).getState()).balance.total);
tell('new account pays', (await as(made).transfer({ receiverId: user.account_id, amount: 1n })).status);

const call = { contractId: 'counter.near', methodName: 'increment', args: { by: 2 } };
await me.callFunction({ ...call, methodName: 'reset', args: {} });
tell('call', await me.callFunction(call));
tell('view', await provider.callFunction({ contractId: 'counter.near', method: 'get_num', args: {} }));
await attempt('panic', () => me.callFunction({ ...call, methodName: 'fail', args: { message: 'on purpose' } }));

const limited = KeyPair.fromRandom('ed25519');
const permission = { publicKey: limited.getPublicKey(), contractId: 'counter.near', methodNames: ['increment'] };
tell('add key', (await me.addFunctionCallAccessKey(permission)).status);
tell('limited key', (await provider.viewAccessKey({ accountId: relayer.account_id, publicKey: limited.getPublicKey() })).permission);
tell('limited key calls', await as(relayer, limited.toString()).callFunction(call));
await attempt('limited key pays', () => as(relayer, limited.toString()).transfer({ receiverId: user.account_id, amount: 1n }));
tell('delete key', (await me.deleteKey(limited.getPublicKey())).status);
await attempt('deleted key', () => as(relayer, limited.toString()).callFunction(call));
tell('key list', (await provider.viewAccessKeyList({ accountId: relayer.account_id })).keys.length);

const delegated = await as(user).createSignedMetaTransaction({
    receiverId: 'counter.near',
    actions: [actions.functionCall('increment', { by: 1 }, 20n * 10n ** 12n, 0n)],
});
const signed = delegated.signedDelegate ?? delegated;
const relayed = await me.relayMetaTransaction(signed);
tell('relay', { status: relayed.status, signer: relayed.transaction.signer_id });
await attempt('relay again', () => me.relayMetaTransaction(signed));

await attempt('unknown account', () => provider.viewAccount({ accountId: 'nobody.near' }));
await attempt('unknown transaction', () =>
    provider.viewTransactionStatus({ txHash: '1'.repeat(32), accountId: user.account_id, waitUntil: 'NONE' }),
);
await attempt('too poor', () => me.transfer({ receiverId: user.account_id, amount: 10n ** 37n }));

const old = await me.createSignedTransaction({ receiverId: user.account_id, actions: [actions.transfer(1n)] });
await provider.sendTransactionUntil(old.signedTransaction ?? old, 'FINAL');
const stale = await as(relayer).createSignedTransaction({ receiverId: user.account_id, actions: [actions.transfer(2n)] });
await me.transfer({ receiverId: user.account_id, amount: 3n });
await attempt('stale nonce', () => provider.sendTransactionUntil(stale.signedTransaction ?? stale, 'FINAL'));

await fault({ kind: 'expired', count: 1 });
await attempt('expired', () => me.transfer({ receiverId: user.account_id, amount: 1n }));
await fault({ kind: 'drop', count: 1 });
await attempt('time-out', () => me.transfer({ receiverId: user.account_id, amount: 1n }));
