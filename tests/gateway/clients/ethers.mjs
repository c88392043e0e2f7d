// ethers 6, unmodified: `node ethers.mjs flow|refusals|errors URL KEY [HOW_MANY]` prints one JSON object.
import { JsonRpcProvider, Wallet } from "ethers";

const [, , mode, url, key, many] = process.argv;
const provider = new JsonRpcProvider(url, undefined, { cacheTimeout: -1, pollingInterval: 200 });
const wallet = new Wallet(key, provider);
const GWEI = 10n ** 9n;
const to = "0x" + "11".repeat(20);
const call = (nonce, more = {}) => ({
  to, value: 1n, nonce, gasLimit: 21_000n, chainId: BigInt(process.env.CHAIN_ID), type: 2,
  maxFeePerGas: 10n * GWEI, maxPriorityFeePerGas: GWEI, ...more,
});
const told = (error) => ({ class: error.code, words: error.info?.error?.message ?? error.error?.message ?? error.message });

async function flow() {
  const first = await provider.getTransactionCount(wallet.address, "pending");
  const burst = await Promise.all(Array.from({ length: 20 }, (_, n) => wallet.sendTransaction(call(first + n))));
  const landed = await Promise.all(burst.map((sent) => sent.wait(1, 60_000)));
  const gapped = await wallet.sendTransaction(call(first + 21));
  const cheap = await wallet.sendTransaction(call(first + 22));
  const dear = await wallet.sendTransaction(call(first + 22, { maxFeePerGas: 20n * GWEI, maxPriorityFeePerGas: 2n * GWEI }));
  const before = await provider.getTransactionCount(wallet.address, "pending");
  const shown = await provider.getTransaction(gapped.hash);
  const filler = await wallet.sendTransaction(call(first + 20));
  for (const sent of [filler, gapped, dear]) landed.push(await sent.wait(1, 60_000));
  const after = await provider.getTransactionCount(wallet.address, "pending");
  return {
    burst: burst.map((sent) => sent.hash), landed: landed.map((receipt) => receipt.status),
    before: before - first, after: after - first, replaced: cheap.hash !== dear.hash, shown: shown.blockNumber,
  };
}

async function errors() {
  const found = [];
  for (let nonce = 0; nonce < Number(many); nonce++) {
    try { await wallet.sendTransaction(call(nonce)); found.push(null); } catch (error) { found.push(told(error)); }
  }
  return found;
}

// What a real gateway refuses, after `flow`.
async function refusals() {
  const send = async (nonce, more) => {
    try { await wallet.sendTransaction(call(nonce, more)); return null; } catch (error) { return told(error); }
  };
  await wallet.sendTransaction(call(30));
  return {
    "nonce too low": await send(0, { value: 2n }), "already known": await send(30),
    replacement: await send(30, { value: 2n }), funds: await send(31, { value: 10n ** 60n }),
    intrinsic: await send(31, { gasLimit: 20_000n }),
  };
}

console.log(JSON.stringify(await { flow, refusals, errors }[mode]()));
process.exit(0);
