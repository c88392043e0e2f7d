// Writes src/generated/ from an OpenAPI document: `node scripts/generate.mjs openapi.json [folder]`.
// schema.ts has the shapes, problems.ts an error class for each problem code. `make openapi` runs it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';

const [source, folder = join(dirname(fileURLToPath(import.meta.url)), '../src/generated')] = process.argv.slice(2);
if (!source) {
    console.error('usage: node scripts/generate.mjs openapi.json [folder]');
    process.exit(2);
}
const document = JSON.parse(readFileSync(source, 'utf8'));
const codes = document.components.schemas.Problem.properties.code.enum;
const head = '// Generated from /openapi.json by `make openapi`. Do not edit.\n\n';

// The calls are written by hand, so only the shapes are wanted. Titles repeat the field names.
const withoutTitles = (told) =>
    Array.isArray(told)
        ? told.map(withoutTitles)
        : told && typeof told === 'object'
          ? Object.fromEntries(
                Object.entries(told)
                    .filter(([name, value]) => name !== 'title' || typeof value !== 'string')
                    .map(([name, value]) => [name, withoutTitles(value)]),
            )
          : told;
const shapes = { ...document, paths: {}, components: { schemas: withoutTitles(document.components.schemas) } };
const schema = astToString(await openapiTS(shapes, { defaultNonNullable: false, emptyObjectsUnknown: true }));

const nameOf = (code) => code.replace(/(^|_)([a-z])/g, (_, __, letter) => letter.toUpperCase()).replace(/Error$/, '') + 'Error';
const called = (code) => (code === 'error' ? 'UnexpectedError' : nameOf(code));
const classes = codes.map((code) => `/** The API answered with the problem code \`${code}\`. */\nexport class ${called(code)} extends TxManagerError {}\n`);
const table = codes.map((code) => `    ${code}: ${called(code)},`).join('\n');
const problems = `import { TxManagerError } from '../errors.js';

${classes.join('\n')}
/** The class of each problem code. */
export const PROBLEMS = {
${table}
} as const;
`;

mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, 'schema.ts'), head + schema);
writeFileSync(join(folder, 'problems.ts'), head + problems);
