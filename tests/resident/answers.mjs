// Bundles answers.ts and answers a file of vectors: what differs goes to standard output, one JSON line each.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const { build } = createRequire(resolve('package.json'))('esbuild');
const [entry, vectors, bundle] = process.argv.slice(2);
await build({ entryPoints: [entry], outfile: bundle, bundle: true, format: 'esm', target: 'es2022' });
const { answer } = await import(bundle);
const differs = [];
const known = JSON.parse(readFileSync(vectors, 'utf8'));
const counts = {};
for (const [number, { ask, args, want }] of known.entries()) {
    let found;
    try {
        found = await answer(ask, args);
    } catch (error) {
        found = `threw ${error.stack}`;
    }
    counts[ask] = (counts[ask] ?? 0) + 1;
    if (canonical(found ?? null) !== canonical(want)) differs.push({ number, ask, args, want, found });
}
writeFileSync(1, JSON.stringify({ counts, differs }));

function canonical(value) {
    const sorted = (_, inner) =>
        inner !== null && typeof inner === 'object' && !Array.isArray(inner)
            ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
            : inner;
    return JSON.stringify(value, sorted);
}
