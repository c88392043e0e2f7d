// Node, Bun and Deno: `run.mjs {"control": url, "names": [...]}` prints what became of each promise.
import { run } from '../run.ts';

const { control, names } = JSON.parse(process.argv[2]);
console.log(JSON.stringify(await run(control, names)));
process.exit(0);
