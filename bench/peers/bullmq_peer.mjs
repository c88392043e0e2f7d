// BullMQ: eight queues with a worker of concurrency 1 each, in one process, results kept in Redis.
import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";
import http from "node:http";
import { performance } from "node:perf_hooks";
import { Queue, QueueEvents, Worker } from "bullmq";

const KEYS = 8;
const [mode, ...rest] = process.argv.slice(2);
const options = Object.fromEntries(
  Array.from({ length: rest.length / 2 }, (_, n) => [rest[2 * n].slice(2), rest[2 * n + 1]]),
);
const jobs = Number(options.jobs);
const connection = { host: "127.0.0.1", port: Number(new URL(options.redis).port) };

const u32 = (value) => { const out = Buffer.alloc(4); out.writeUInt32LE(value); return out; };
const u64 = (value) => { const out = Buffer.alloc(8); out.writeBigUInt64LE(BigInt(value)); return out; };
const text = (value) => { const raw = Buffer.from(value); return Buffer.concat([u32(raw.length), raw]); };

class Key {
  constructor(number) {
    const seed = createHash("sha256").update(`bench ${number}`).digest();
    const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]);
    this.secret = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    const spki = createPublicKey(this.secret).export({ format: "der", type: "spki" });
    this.public = spki.subarray(spki.length - 32);
    this.nonce = 1000;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  }

  request(job) {
    this.nonce += 1;
    const args = Buffer.from(JSON.stringify({ receiver_id: "bob.near", amount: String(job), memo: "x".repeat(140) }));
    const deposit = Buffer.alloc(16); deposit[0] = 1;
    const call = Buffer.concat([Buffer.from([2]), text("ft_transfer"), u32(args.length), args, u64(30n * 10n ** 12n), deposit]);
    const body = Buffer.concat([text("relayer.near"), Buffer.from([0]), this.public, u64(this.nonce), text("ft.near"),
      Buffer.alloc(32), u32(1), call]);
    const signature = sign(null, createHash("sha256").update(body).digest(), this.secret);
    const params = [Buffer.concat([body, Buffer.from([0]), signature]).toString("base64")];
    return JSON.stringify({ jsonrpc: "2.0", id: job, method: "broadcast_tx_async", params });
  }

  post(body) {
    return new Promise((resolve, reject) => {
      const headers = { "content-length": Buffer.byteLength(body) };
      const request = http.request({ host: "127.0.0.1", port: Number(options.sink), method: "POST", agent: this.agent, headers },
        (answer) => {
          const parts = [];
          answer.on("data", (part) => parts.push(part));
          answer.on("end", () => resolve(JSON.parse(Buffer.concat(parts)).result));
        });
      request.on("error", reject);
      request.end(body);
    });
  }
}

const pay = async (key, job) => {
  const hash = await key.post(key.request(job));
  if (options.work === "send") return hash;
  const params = { tx_hash: hash, sender_account_id: "relayer.near", wait_until: "NONE" };
  const told = await key.post(JSON.stringify({ jsonrpc: "2.0", id: job, method: "EXPERIMENTAL_tx_status", params }));
  if (told.final_execution_status !== "FINAL") throw new Error("not final");
  return { status: told.status, gas: told.transaction_outcome.outcome.gas_burnt };
};

const keys = Array.from({ length: KEYS }, (_, n) => new Key(n));
const queues = keys.map((_, n) => new Queue(`bull-${n}`, { connection }));
const sent = new Map();
const took = [];
let left = jobs;
let ended;
const end = new Promise((resolve) => { ended = resolve; });

const start = () => keys.map((key, n) => {
  const worker = new Worker(`bull-${n}`, async (job) => pay(key, job.data.job), { connection, concurrency: 1 });
  worker.on("completed", (job) => {
    const at = sent.get(job.data.job);
    if (at !== undefined) took.push(performance.now() - at);
    left -= 1;
    if (left === 0) ended();
  });
  return worker;
});

if (mode === "drain") {
  for (let n = 0; n < KEYS; n += 1) {
    const all = [];
    for (let job = n; job < jobs; job += KEYS) all.push({ name: "pay", data: { job }, opts: { jobId: `job-${job}` } });
    for (let at = 0; at < all.length; at += 500) await queues[n].addBulk(all.slice(at, at + 500));
  }
  const began = performance.now();
  const before = process.cpuUsage();
  start();
  await end;
  const seconds = (performance.now() - began) / 1000;
  const spent = process.cpuUsage(before);
  console.log(JSON.stringify({ seconds, per_s: jobs / seconds, cpu_us: (spent.user + spent.system) / jobs }));
} else {
  const heard = keys.map((_, n) => new QueueEvents(`bull-${n}`, { connection }));
  await Promise.all(heard.map((events) => events.waitUntilReady()));
  start();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const held = [];
  const call = async (job) => {
    sent.set(job, performance.now());
    const added = await queues[job % KEYS].add("pay", { job }, { jobId: `job-${job}` });
    await added.waitUntilFinished(heard[job % KEYS]);
    held.push(performance.now() - sent.get(job));
  };
  const calls = [];
  const began = performance.now();
  for (let job = 0; job < jobs; job += 1) {
    const wait = began + (job * 1000) / Number(options.rate) - performance.now();
    if (wait > 0.5) await new Promise((resolve) => setTimeout(resolve, wait));
    calls.push(call(job));
  }
  await Promise.all(calls);
  console.log(JSON.stringify({ latencies_ms: held, body_ms: took }));
}
process.exit(0);
