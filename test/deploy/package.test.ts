import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { describe, expect, test } from 'vitest';
import { cloneOfThis, installed, pack, root, run } from './packed.ts';

const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  devDependencies: Record<string, string>;
};
const compiler = ['typescript', '@types/node'].map((name) => `${name}@${devDependencies[name]}`);

const tarball = pack(cloneOfThis());
const folder = installed(tarball, compiler);

/** What a producer must not load: servers, model clients, MCP, the sandbox and their like. */
const heavy = ['fastify', 'openai', '@modelcontextprotocol', 'quickjs', '@jitl', 'undici', 'ajv', 'prom-client'];

const consumer = `
import { Millrace, isTerminal, type RunEvent } from 'millrace';
import { createAgent, defineAgent, defineTool, startWorker, type RunningWorker } from 'millrace/worker';
import { FakeClock } from 'millrace/testing';
import { z } from 'zod';

export const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  execute: ({ order }, { idempotencyKey }) => ({ order: order.trim(), key: idempotencyKey.length }),
});
const support = defineAgent({ id: 'support', model: 'gpt-5.2-mini', tools: [lookupOrder] });
const { status, steps }: { status: string; steps: number } = await createAgent(support).run('Where is order 7?');
console.log(status, steps > 0, typeof startWorker, typeof FakeClock);

export async function follow(redis: string): Promise<RunEvent[]> {
  await using mill = new Millrace({ redis });
  const run = await mill.enqueue({ agent: 'support', input: 'Where is order 7?' });
  const events: RunEvent[] = [];
  for await (const event of run.events()) if (isTerminal(event) || event.type === 'text.delta') events.push(event);
  // @ts-expect-error An agent is named by text.
  await mill.enqueue({ agent: 7, input: '' });
  return events;
}
export type Worker = RunningWorker;
`;
writeFileSync(join(folder, 'consumer.ts'), consumer);
cpSync(join(folder, 'node_modules/millrace/examples'), join(folder, 'examples'), { recursive: true });

test('a package that was packed in a clone without a build is whole', () => {
  const files = readdirSync(join(folder, 'node_modules/millrace'));
  expect(files.sort()).toEqual(
    ['CHANGELOG.md', 'LICENSE', 'README.md', 'bin', 'dist', 'docs', 'examples', 'package.json'].sort(),
  );
});

test('publint finds nothing to complain about', async () => {
  const file = readFileSync(tarball);
  const { messages } = await publint({
    pack: { tarball: file.buffer.slice(file.byteOffset, file.byteOffset + file.length) as ArrayBuffer },
    strict: true,
  });
  expect(messages).toEqual([]);
});

test('the types of every entry point resolve as its code does', () => {
  const { code, stdout, stderr } = run(root, 'node_modules/.bin/attw', [
    tarball,
    '--profile',
    'esm-only',
    '-f',
    'ascii',
  ]);
  for (const entry of ['"millrace"', '"millrace/worker"', '"millrace/testing"']) expect(stdout).toContain(entry);
  expect(stderr).toBe('');
  expect(code).toBe(0);
});

test.each([
  { module: 'nodenext', moduleResolution: 'nodenext' },
  { module: 'esnext', moduleResolution: 'bundler' },
])('a strict program, and every example, is type-checked without a complaint: $moduleResolution', (resolution) => {
  const compilerOptions = {
    ...resolution,
    target: 'es2024',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noPropertyAccessFromIndexSignature: true,
    verbatimModuleSyntax: true,
    skipLibCheck: false,
    noEmit: true,
    allowImportingTsExtensions: true,
    types: ['node'],
  };
  const config = { compilerOptions, include: ['consumer.ts', 'examples'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const { stdout, code } = run(folder, 'npx', ['--no-install', 'tsc', '-p', '.']);
  expect(stdout).toBe('');
  expect(code).toBe(0);
});

describe('installed into an empty folder', () => {
  test('the typed program runs', () => {
    const { code, stdout, stderr } = run(folder, 'node', ['consumer.ts']);
    expect(stderr).toBe('');
    expect(stdout).toBe('completed true function function\n');
    expect(code).toBe(0);
  });

  test('an example runs as it is', () => {
    const { code, stdout } = run(folder, 'node', ['examples/in-process.ts']);
    expect(stdout).toMatch(/\ncompleted in \d+ steps/);
    expect(code).toBe(0);
  });

  test('a CommonJS program can load every entry point', () => {
    const load = `for (const e of ['millrace', 'millrace/worker', 'millrace/testing']) console.log(Object.keys(require(e)).length > 0); process.exit()`;
    writeFileSync(join(folder, 'load.cjs'), load);
    const { stdout, stderr } = run(folder, 'node', ['load.cjs']);
    expect(stderr).toBe('');
    expect(stdout).toBe('true\ntrue\ntrue\n');
  });

  test('npx millrace --help works', () => {
    const { code, stdout } = run(folder, 'npx', ['--no-install', 'millrace', '--help']);
    expect(stdout).toMatch(/^Usage: millrace /);
    expect(code).toBe(0);
  });

  test('a producer loads no server, model client, MCP client or sandbox', () => {
    const loaded = loadedBy(folder, 'millrace');
    expect(loaded).toContain('zod');
    expect(heavy.filter((name) => [...loaded].some((each) => each.includes(name)))).toEqual([]);
  });
});

/** Names of the packages whose files are loaded by an import. */
function loadedBy(cwd: string, specifier: string): ReadonlySet<string> {
  const program = `
    import { registerHooks } from 'node:module';
    registerHooks({ load: (url, context, next) => (console.log(url), next(url, context)) });
    await import(${JSON.stringify(specifier)});
    process.exit();`;
  const { stdout } = run(cwd, 'node', ['--input-type=module', '--eval', program]);
  return new Set([...stdout.matchAll(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//g)].map(([, name = '']) => name));
}
