// Bundles the scripts into dist or the folder that is named: the ledger (worker.js) and the one that tests run, which can
// also move clocks (testing.js); the front of resident lanes (relay.js), their signing script (signer.js) and the one
// that tests run (signer-testing.js).
import { build } from 'esbuild';

await build({
    entryPoints: {
        worker: 'src/index.ts',
        testing: 'src/testing.ts',
        relay: 'src/relay/index.ts',
        signer: 'src/resident/signer.ts',
        'signer-testing': 'src/resident/testing.ts',
    },
    outdir: process.argv[2] ?? 'dist',
    bundle: true,
    format: 'esm',
    target: 'es2022',
    external: ['cloudflare:workers'],
});
