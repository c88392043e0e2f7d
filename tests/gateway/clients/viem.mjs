// viem 2, unmodified: `node viem.mjs flow|refusals|errors|words URL KEY [HOW_MANY]` prints one JSON object.
import { createPublicClient, createWalletClient, defineChain, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";

const [, , mode, url, key, many] = process.argv;
const chain = defineChain({
  id: Number(process.env.CHAIN_ID), name: "test", nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 }, rpcUrls: { default: { http: [url] } },
});
const transport = http(url, { retryCount: 0 });
const account = privateKeyToAccount(key);
const reader = createPublicClient({ chain, transport, pollingInterval: 200 });
const wallet = createWalletClient({ account, chain, transport });
const GWEI = 10n ** 9n;
const call = (nonce, more = {}) => ({
  to: "0x" + "11".repeat(20), value: 1n, nonce, gas: 21_000n, type: "eip1559",
  maxFeePerGas: 10n * GWEI, maxPriorityFeePerGas: GWEI, ...more,
});
const told = (error) => ({ class: error.cause?.name ?? error.name, words: error.details });
const count = () => reader.getTransactionCount({ address: account.address, blockTag: "pending" });

async function flow() {
  const first = await count();
  const burst = await Promise.all(Array.from({ length: 20 }, (_, n) => wallet.sendTransaction(call(first + n))));
  const wait = async (hash) => (await reader.waitForTransactionReceipt({ hash, timeout: 60_000 })).status;
  const landed = await Promise.all(burst.map(wait));
  const gapped = await wallet.sendTransaction(call(first + 21));
  const cheap = await wallet.sendTransaction(call(first + 22));
  const dear = await wallet.sendTransaction(call(first + 22, { maxFeePerGas: 20n * GWEI, maxPriorityFeePerGas: 2n * GWEI }));
  const before = await count();
  const shown = await reader.getTransaction({ hash: gapped });
  const filler = await wallet.sendTransaction(call(first + 20));
  for (const hash of [filler, gapped, dear]) landed.push(await wait(hash));
  return {
    burst, landed: landed.map((status) => (status === "success" ? 1 : 0)), before: before - first,
    after: (await count()) - first, replaced: cheap !== dear, shown: shown.blockNumber,
  };
}

async function errors() {
  const found = [];
  for (let nonce = 0; nonce < Number(many); nonce++) {
    try { await wallet.sendTransaction(call(nonce)); found.push(null); } catch (error) { found.push(told(error)); }
  }
  return found;
}

// The words that each error class of a node is known by.
async function words() {
  const classes = await import("viem");
  const named = Object.entries(classes).filter(([, one]) => one?.nodeMessage instanceof RegExp);
  return Object.fromEntries(named.map(([name, one]) => [name, one.nodeMessage.source]));
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
    intrinsic: await send(31, { gas: 20_000n }),
  };
}

console.log(JSON.stringify(await { flow, refusals, errors, words }[mode]()));
process.exit(0);
