// Builds dist/esm and dist/cjs from the same sources with the TypeScript compiler alone.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const run = (project, folder) => {
    const done = spawnSync(process.execPath, [tsc, '-p', project, '--outDir', folder], { cwd: root, stdio: 'inherit' });
    if (done.status !== 0) process.exit(done.status ?? 1);
};

rmSync(join(root, 'dist'), { recursive: true, force: true });
run('tsconfig.build.json', 'dist/esm');
// The same layout for require(), without the drop-ins: their libraries are ESM only. A package.json inside says that
// the files are CommonJS.
run('tsconfig.cjs.json', 'dist/cjs');
mkdirSync(join(root, 'dist/cjs'), { recursive: true });
writeFileSync(join(root, 'dist/cjs/package.json'), '{ "type": "commonjs" }\n');
