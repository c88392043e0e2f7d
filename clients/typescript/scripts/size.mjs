// Prints the minified size in bytes of all an application bundles when it uses the client and verifies webhooks.
import { build } from 'esbuild';

const used = "import { TxManager, verifyWebhook } from './src/index.ts'; globalThis.use(TxManager, verifyWebhook);";
const stdin = { contents: used, resolveDir: '.', loader: 'ts' };
const bundled = await build({ stdin, bundle: true, minify: true, format: 'esm', target: 'es2022', write: false });
console.log(bundled.outputFiles[0].contents.length);
