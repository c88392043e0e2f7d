// Builds dist/esm and dist/cjs from the same sources with the TypeScript compiler alone.
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const run = (...options) => {
    const done = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', ...options], { cwd: root, stdio: 'inherit' });
    if (done.status !== 0) process.exit(done.status ?? 1);
};

rmSync(join(root, 'dist'), { recursive: true, force: true });
run('--outDir', 'dist/esm');
// The same folder layout for require(): a package.json inside says that its files are CommonJS.
run('--outDir', 'dist/cjs', '--module', 'CommonJS', '--moduleResolution', 'Node10', '--verbatimModuleSyntax', 'false');
mkdirSync(join(root, 'dist/cjs'), { recursive: true });
writeFileSync(join(root, 'dist/cjs/package.json'), '{ "type": "commonjs" }\n');
