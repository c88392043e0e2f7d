// The same for near-kit: a wallet with a key for each transaction, or the library with a private key.
import { TxManager } from '@txmanager/client';
import { managedWallets } from '@txmanager/client/near-kit';
import { Near } from 'near-kit';

const { mode, id, api, token, rpc, accountId, privateKey, receiverId, publicKey } = JSON.parse(process.argv[2]);
const network = { networkId: 'localnet', rpcUrl: rpc };
const wallets = managedWallets({ manager: new TxManager({ baseUrl: api, token, pool: 'main' }), accountId, rpcUrl: rpc });
const plain = new Near({ network, privateKey, defaultSignerId: accountId });
const once = (step) => (mode === 'managed' ? new Near({ network, wallet: wallets.wallet(`${id}-${step}`) }) : plain);

const steps = {
    transfer: () => once('transfer').send(receiverId, '1000 yocto'),
    async ft() {
        const near = once('ft');
        const deposit = { attachedDeposit: '1250000000000000000000 yocto' };
        await near.call('ft.near', 'storage_deposit', { account_id: receiverId }, deposit);
        await near.call('ft.near', 'ft_transfer', { receiver_id: receiverId, amount: '7' }, { attachedDeposit: '1 yocto' });
    },
    call: () => once('call').call('counter.near', 'increment', { by: 1 }),
    create: () =>
        once('create')
            .transaction(accountId)
            .createAccount(`${id}.${accountId}`)
            .transfer(`${id}.${accountId}`, '100000000000000000000000 yocto')
            .addKey(publicKey, { type: 'fullAccess' })
            .send(),
    batch: () => once('batch').transaction(accountId).transfer(receiverId, '10 yocto').transfer(receiverId, '20 yocto').send(),
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
