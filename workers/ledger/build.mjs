// Bundles the Worker (worker.js) and the one that tests run, which can also move clocks (testing.js), into dist or the
// folder that is named.
import { build } from 'esbuild';

await build({
    entryPoints: { worker: 'src/index.ts', testing: 'src/testing.ts' },
    outdir: process.argv[2] ?? 'dist',
    bundle: true,
    format: 'esm',
    target: 'es2022',
    external: ['cloudflare:workers'],
});
