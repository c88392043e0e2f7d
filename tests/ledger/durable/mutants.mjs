// Bundles the Worker once for each mutant: standard input is [{file, text, without}], mutant n goes to OUT/n.js.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const { build } = createRequire(resolve('package.json'))('esbuild');
const [out] = process.argv.slice(2);
const mutants = JSON.parse(readFileSync(0, 'utf8'));
for (const [number, { file, text, without }] of mutants.entries()) {
    const mutated = resolve('src', file);
    const mutate = {
        name: 'mutate',
        setup(bundler) {
            bundler.onLoad({ filter: /\.ts$/ }, ({ path }) => {
                const whole = readFileSync(path, 'utf8');
                return { contents: path === mutated ? whole.replaceAll(text, () => without) : whole, loader: 'ts' };
            });
        },
    };
    await build({
        entryPoints: ['src/testing.ts'],
        outfile: `${out}/${number}.js`,
        bundle: true,
        format: 'esm',
        target: 'es2022',
        external: ['cloudflare:workers'],
        plugins: [mutate],
    });
}
