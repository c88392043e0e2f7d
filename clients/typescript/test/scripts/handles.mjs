// The rules of a handle: one key is one transaction, none without a key, and nothing is ever signed here.
import assert from 'node:assert/strict';
import { TxManager } from '@txmanager/client';
import { ManagedAccount } from '@txmanager/client/near-api-js';
import { managedWallets } from '@txmanager/client/near-kit';
import { Account, JsonRpcProvider, KeyPair, KeyPairSigner, actions } from 'near-api-js';
import { Near } from 'near-kit';

const { id, api, token, rpc, accountId, receiverId } = JSON.parse(process.argv[2]);
const manager = new TxManager({ baseUrl: api, token, pool: 'main' });
const provider = new JsonRpcProvider({ url: rpc });
const account = new ManagedAccount(accountId, provider, { manager });
const pay = (amount) => ({ receiverId, amount });

await assert.rejects(account.transfer(pay(1n)), /once\(key\)/);
await assert.rejects(account.getSigner().signTransaction(), /holds no key/);

const handle = account.once(`${id}-one`);
const first = await handle.transfer(pay(1n));
const again = await handle.transfer(pay(1n));
assert.equal(again.transaction.hash, first.transaction.hash);
await assert.rejects(handle.transfer(pay(2n)), /one key is one transaction/);
assert.equal((await manager.get(`${id}-one`)).tx_hash, first.transaction.hash);

const transactions = [1n, 2n].map((amount) => ({ receiverId, actions: [actions.transfer(amount)] }));
const many = await account.once(`${id}-many`).signAndSendTransactions({ transactions });
for (const [index, outcome] of many.entries())
    assert.equal((await manager.get(`${id}-many:${index}`)).tx_hash, outcome.transaction.hash);

const fails = { contractId: 'counter.near', methodName: 'fail', args: { message: 'on purpose' } };
await assert.rejects(account.once(`${id}-fails`).callFunction(fails), { code: 'intent_failed' });

const automatic = new ManagedAccount(accountId, provider, { manager, unsafeAutoKey: true });
assert.notEqual((await automatic.transfer(pay(1n))).transaction.hash, (await automatic.transfer(pay(1n))).transaction.hash);

const stranger = new ManagedAccount('dev1.near', provider, { manager });
await assert.rejects(stranger.once(`${id}-one`).transfer(pay(1n)), /signs for/);

const pair = KeyPair.fromRandom('ed25519');
const user = `${id}.${accountId}`;
await account.once(`${id}-user`).createAccount({ newAccountId: user, publicKey: pair.getPublicKey(), nearToTransfer: 10n ** 24n });
const sender = new Account(user, provider, new KeyPairSigner(pair));
const meta = await sender.createSignedMetaTransaction({ receiverId: 'counter.near', actions: [actions.functionCall('increment', {}, 10n ** 13n, 0n)] });
const signed = meta.signedDelegate ?? meta;
const relayed = await account.relayMetaTransaction(signed);
assert.equal((await account.relayMetaTransaction(signed)).transaction.hash, relayed.transaction.hash);

const wallets = managedWallets({ manager, accountId, rpcUrl: rpc });
const network = { networkId: 'localnet', rpcUrl: rpc };
await assert.rejects(new Near({ network, wallet: wallets.wallet() }).send(receiverId, '1 yocto'), /once\(key\)/);
await assert.rejects(wallets.wallet('x').signAndSendTransaction({ signerId: 'dev1.near', receiverId, actions: [] }), /not dev1.near/);
const wallet = new Near({ network, wallet: wallets.wallet(`${id}-kit`) });
await wallet.send(receiverId, '1 yocto');
await assert.rejects(wallet.send(receiverId, '2 yocto'), /one key is one transaction/);
await assert.rejects(account.once(`${id}-x`).deployGlobalContract(new Uint8Array([1]), 'codeHash'), /no action like/);
console.log('kept');
