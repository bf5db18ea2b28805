import type { RunRequestInput } from '../../../../../shared/contract/run.ts';

/** A command for a shell that starts the run. The key comes from the environment of the shell. */
export function curlOf(request: RunRequestInput, origin: string): string {
  return [
    `curl -sS ${quoted(`${origin}/v1/runs`)}`,
    `-H "authorization: Bearer $MILLRACE_API_KEY"`,
    `-H 'content-type: application/json'`,
    `-d ${quoted(JSON.stringify(request, null, 2))}`,
  ].join(' \\\n  ');
}

/** A module that starts the run and prints its answer. */
export function typescriptOf(request: RunRequestInput, origin: string): string {
  return `import { Millrace } from 'millrace';

const mill = new Millrace({ url: ${literalOf(origin)}, apiKey: process.env.MILLRACE_API_KEY });
const run = await mill.enqueue(${literalOf(request)});
console.log(run.runId);
const { text } = await run.result();
console.log(text);
await mill.close();
`;
}

/** Everything between single quotes is text to a shell, except a single quote. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** A value as source text: keys without quotes where they need none, and two spaces for each level. */
export function literalOf(value: unknown, indent = ''): string {
  if (typeof value === 'string') return stringLiteral(value);
  if (value === undefined) return 'undefined';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = `${indent}  `;
  const lines = Array.isArray(value)
    ? value.map((item) => `${inner}${literalOf(item, inner)},\n`)
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([key, item]) => `${inner}${keyOf(key)}: ${literalOf(item, inner)},\n`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return lines.length === 0 ? `${open}${close}` : `${open}\n${lines.join('')}${indent}${close}`;
}

function keyOf(key: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(key) && key !== '__proto__' ? key : stringLiteral(key);
}

/** JSON's escapes are those of a program, too; only the quotes are others. */
function stringLiteral(text: string): string {
  const inner = JSON.stringify(text)
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("'", String.raw`\'`);
  return `'${inner}'`;
}
