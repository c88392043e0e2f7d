// The examples of near-api-js as one script: `managed` through txmanager, `plain` as the library does it alone.
// Prints a JSON line before and after each step. It may be killed at any moment and run again with the same id.
import { TxManager } from '@txmanager/client';
import { ManagedAccount } from '@txmanager/client/near-api-js';
import { Account, JsonRpcProvider, KeyPairSigner, actions } from 'near-api-js';
import { FungibleToken } from 'near-api-js/tokens';

const { mode, id, api, token, rpc, accountId, privateKey, receiverId, publicKey } = JSON.parse(process.argv[2]);
const provider = new JsonRpcProvider({ url: rpc });
const managed = () => new ManagedAccount(accountId, provider, { manager: new TxManager({ baseUrl: api, token, pool: 'main' }) });
const plain = () => new Account(accountId, provider, KeyPairSigner.fromSecretKey(privateKey));
const account = mode === 'managed' ? managed() : plain();
const once = (step) => (mode === 'managed' ? account.once(`${id}-${step}`) : account);

const ft = new FungibleToken('ft.near', { decimals: 24, name: 'Devnet token', symbol: 'DEV' });
const steps = {
    transfer: () => once('transfer').transfer({ receiverId, amount: 1000n }),
    ft: () => once('ft').transfer({ receiverId, amount: 7n, token: ft }),
    call: () => once('call').callFunction({ contractId: 'counter.near', methodName: 'increment', args: { by: 1 } }),
    create: () => once('create').createAccount({ newAccountId: `${id}.${accountId}`, publicKey, nearToTransfer: 10n ** 23n }),
    batch: () => once('batch').signAndSendTransaction({ receiverId, actions: [actions.transfer(10n), actions.transfer(20n)] }),
};

let failed = 0;
for (const [step, act] of Object.entries(steps)) {
    console.log(JSON.stringify({ begin: step }));
    try {
        await act();
        console.log(JSON.stringify({ end: step }));
    } catch (error) {
        failed += 1;
        console.log(JSON.stringify({ failed: step, error: `${error.name}: ${error.message}`.slice(0, 300) }));
    }
}
process.exit(failed ? 1 : 0);
