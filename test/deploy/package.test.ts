import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publint } from 'publint';
import { afterAll, describe, expect, test } from 'vitest';
import { RunWriter } from '../producer/support/run-writer.ts';
import { endRun, serverWorld } from '../producer/http/server-world.ts';
import { bundle, openPage } from './browser-bundle.ts';
import { cloneInto, installInto, pack, root, run } from './packed.ts';

const { devDependencies, optionalDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  devDependencies: Record<string, string>;
  optionalDependencies: Record<string, string>;
};
const pinned = (...names: string[]) => names.map((name) => `${name}@${devDependencies[name]}`);
const compiler = pinned('typescript', '@types/node');
/** What the examples import beside the package. */
const usedByExamples = pinned('express', '@types/express', 'vitest');

const scratch = mkdtempSync(join(tmpdir(), 'millrace-package-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
cloneInto(join(scratch, 'clone'));
const tarball = pack(join(scratch, 'clone'), scratch);
const folder = join(scratch, 'consumer');
installInto(folder, tarball, [...compiler, ...usedByExamples]);

/** What importing `millrace` must not load, beside what an installation may leave out. */
const loadedLater = ['ajv', 'bullmq', 're2js'];

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
    [
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'agents',
      'bin',
      'dist',
      'docs',
      'examples',
      'package.json',
      'scripts',
      'templates',
    ].sort(),
  );
});

test('the package has the built console, and no source of it', () => {
  const console = join(folder, 'node_modules/millrace/dist/producer/console');
  expect(readdirSync(console).sort()).toEqual(['assets', 'index.html']);
  const kinds = new Set(readdirSync(join(console, 'assets')).map((name) => name.split('.').at(-1)));
  expect([...kinds].toSorted((a = '', b = '') => a.localeCompare(b))).toEqual(['css', 'js', 'svg']);
});

test('publint finds nothing to complain about', async () => {
  const file = readFileSync(tarball);
  const { messages } = await publint({
    pack: { tarball: file.buffer.slice(file.byteOffset, file.byteOffset + file.length) },
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
  for (const entry of ['"millrace"', '"millrace/client"', '"millrace/worker"', '"millrace/testing"'])
    expect(stdout).toContain(entry);
  expect(stderr).toBe('');
  expect(code).toBe(0);
});

test.each([
  { module: 'nodenext', moduleResolution: 'nodenext' },
  { module: 'esnext', moduleResolution: 'bundler' },
])('a strict program, and every example, is type-checked without a complaint: $moduleResolution', (resolution) => {
  expect(typeCheck(folder, resolution, ['consumer.ts', 'examples'])).toBe('');
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
    const load = `for (const e of ['millrace', 'millrace/client', 'millrace/worker', 'millrace/testing']) console.log(Object.keys(require(e)).length > 0); process.exit()`;
    writeFileSync(join(folder, 'load.cjs'), load);
    const { stdout, stderr } = run(folder, 'node', ['load.cjs']);
    expect(stderr).toBe('');
    expect(stdout).toBe('true\n'.repeat(4));
  });

  test('npx millrace --help works', () => {
    const { code, stdout } = run(folder, 'npx', ['--no-install', 'millrace', '--help']);
    expect(stdout).toMatch(/^Usage: millrace /);
    expect(code).toBe(0);
  });

  test('importing millrace loads nothing that only servers, workers or the first enqueued run need', () => {
    const loaded = loadedBy(folder, 'millrace');
    expect(loaded).toContain('ioredis');
    expect([...Object.keys(optionalDependencies), ...loadedLater].filter((name) => loaded.has(name))).toEqual([]);
  });
});

describe('bundled for a browser', () => {
  const program = `
import { Millrace, RunError, isTerminal } from 'millrace';
export async function main(url, onRun) {
  const mill = new Millrace({ url });
  const run = await mill.enqueue({ agent: 'support', input: 'Where is order 7?' });
  onRun(run.runId);
  const types = [];
  for await (const event of run.events()) types.push(isTerminal(event) ? 'the end' : event.type);
  const lines = [];
  for await (const { type } of run.events({ dialect: 'ndjson-chat' })) lines.push(type);
  const { text } = await run.result();
  const file = await mill.files.upload(new Blob(['a line']), { filename: 'a.jsonl', purpose: 'batch' });
  const turn = await mill.chat({ agent: 'support', message: 'And 8?', sessionId: 's', turnIndex: 0 });
  const error = await mill.get('7Q7Q7Q7Q7Q7Q7Q7Q7Q7Q7Q7Q7Q').catch((thrown) => thrown);
  await mill.close();
  return { types, lines, text, bytes: file.bytes, turn: turn.executionId, code: error instanceof RunError && error.code };
}`;

  test.each(['millrace', 'millrace/client'])(
    'a page with %s has nothing of Node, Redis or the schemas, is small, and works',
    async (name) => {
      const { code, modules, bytes, gzippedBytes } = await bundle(folder, program.replace("'millrace'", `'${name}'`));
      process.stdout.write(`${name} in a page: ${bytes} bytes, ${gzippedBytes} gzipped, ${modules.length} modules\n`);
      expect(
        modules.filter((id) => /node:|__vite-browser-external|node_modules\/(ioredis|bullmq|zod|pino)\//.test(id)),
      ).toEqual([]);
      expect(code).not.toMatch(/\bprocess\.|\bBuffer\.|\brequire\(|ioredis|bullmq/i);
      expect(gzippedBytes).toBeLessThan(25_000);
      const world = await serverWorld();
      const started = Promise.withResolvers<string>();
      const page = openPage<Record<string, unknown>>(code)(world.url, started.resolve);
      // Its request had an execution id, so that the log has an event more.
      const writer = new RunWriter(world.redis, world.keys, await started.promise, 2);
      await writer.text(2);
      await endRun(writer);
      expect(await page).toEqual({
        types: ['run.queued', 'execution.started', 'text.delta', 'text.delta', 'the end'],
        lines: expect.arrayContaining(['session.run.started', 'session.run.completed']),
        text: 'It is on its way.',
        bytes: 6,
        turn: 'default:s:0',
        code: 'run_not_found',
      });
    },
  );

  test.each(['browser', 'worker', 'workerd', 'edge-light'])('the condition %s leads to the same door', (condition) => {
    const program = `console.log(import.meta.resolve('millrace') === import.meta.resolve('millrace/client'))`;
    const args = [`--conditions=${condition}`, '--input-type=module', '--eval', program];
    expect(run(folder, 'node', args).stdout).toBe('true\n');
    expect(run(folder, 'node', args.slice(1)).stdout).toBe('false\n');
  });
});

describe('installed without optional packages', () => {
  const light = join(scratch, 'light');
  installInto(light, tarball, [...compiler, '--omit=optional']);

  test('what only servers and workers need is not there', () => {
    const packages = Object.keys(optionalDependencies);
    expect(packages).toEqual(expect.arrayContaining(['fastify', 'openai', '@modelcontextprotocol/client']));
    expect(packages.filter((name) => existsSync(join(light, 'node_modules', name)))).toEqual([]);
  });

  test('a strict producer is type-checked without a complaint, and reaches for Redis', () => {
    const producer = `
import { Millrace, type RunView } from 'millrace';
await using mill = new Millrace({ redis: 'redis://127.0.0.1:1' });
const failed: RunView | string = await mill.enqueue({ agent: 'support', input: 'Where is order 7?' }).then(
  (run) => run.runId,
  (error: unknown) => (error as { code: string }).code,
);
console.log(failed);
`;
    writeFileSync(join(light, 'producer.ts'), producer);
    expect(typeCheck(light, { module: 'nodenext' }, ['producer.ts'])).toBe('');
    const { stdout, stderr } = run(light, 'node', ['producer.ts']);
    expect(stderr).toBe('');
    expect(stdout).toBe('queue_unavailable\n');
  });

  test('commands that ask a producer side work, and those that start processes say what to install', () => {
    expect(run(light, 'npx', ['--no-install', 'millrace', 'runs', '--help']).code).toBe(0);
    for (const role of ['producer', 'worker', 'dev']) {
      const { code, stderr } = run(light, 'npx', ['--no-install', 'millrace', role]);
      expect(stderr).toMatch(/need packages that are not installed here: .*openai.*npm install --include=optional/s);
      expect(code).toBe(2);
    }
  });
});

/** What the compiler says of some files of a folder. The compiler itself is an optional package of TypeScript. */
function typeCheck(cwd: string, resolution: object, include: readonly string[]): string {
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
  writeFileSync(join(cwd, 'tsconfig.json'), JSON.stringify({ compilerOptions, include }));
  const { stdout, stderr } = run(cwd, join(folder, 'node_modules/.bin/tsc'), ['-p', '.']);
  return `${stdout}${stderr}`;
}

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
