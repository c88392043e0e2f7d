// Bundles child.ts to the file that is named; standard input is a list of mutants [{file, text, without}] to put in.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const { build } = createRequire(resolve('package.json'))('esbuild');
const [entry, sources, outfile] = process.argv.slice(2);
const mutants = JSON.parse(readFileSync(0, 'utf8'));
const mutate = {
    name: 'mutate',
    setup(bundler) {
        bundler.onLoad({ filter: /\.ts$/ }, ({ path }) => {
            let contents = readFileSync(path, 'utf8');
            for (const { file, text, without } of mutants) {
                if (path !== resolve(sources, file)) continue;
                if (!contents.includes(text)) throw new Error(`${file} has no ${text}`);
                contents = contents.replaceAll(text, () => without);
            }
            return { contents, loader: 'ts' };
        });
    },
};
await build({ entryPoints: [entry], outfile, bundle: true, format: 'esm', platform: 'node', target: 'es2022', plugins: [mutate] });
