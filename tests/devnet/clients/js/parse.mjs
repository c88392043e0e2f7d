// near-api-js, unchanged, reads answers from a file instead of a node. Prints what it makes of each, one JSON line.
import { readFileSync } from 'node:fs';
import { JsonRpcProvider } from 'near-api-js';

const told = JSON.parse(readFileSync(process.argv[2], 'utf8'));
let next = { status: 200, body: '' };
globalThis.fetch = async () =>
    new Response(next.body, { status: next.status, headers: { 'content-type': 'application/json' } });
const provider = new JsonRpcProvider({ url: 'http://127.0.0.1:1' }, { retries: 1, wait: 1, backoff: 1 });

const read = async (method, params, answer) => {
    next = answer;
    try {
        const result = await provider.sendJsonRpc(method, params);
        return { parsed: result === null ? 'null' : typeof result };
    } catch (error) {
        return { error: error.constructor.name, type: error.type ?? null };
    }
};

for (const { name, method, params, real, ours } of told) {
    console.log(JSON.stringify({ name, real: await read(method, params, real), ours: await read(method, params, ours) }));
}
