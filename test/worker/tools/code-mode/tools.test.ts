import { expect, test } from 'vitest';
import { silentLog } from '../../../../src/shared/base/log.ts';
import { createCodeTools } from '../../../../src/worker/tools/code-mode/tools.ts';
import type { CatalogueEntry, HostContext, InnerOutcome, ToolOutput } from '../../../../src/worker/tools/tool.ts';
import { scriptWorld } from './script-world.ts';

const { pool } = scriptWorld();
const [codeExecute, codeSearch] = createCodeTools(pool, () => 1_700_000_000_000);

const tool = (name: string, gated = false): CatalogueEntry => ({
  name,
  description: `Does ${name}.`,
  parameters: { type: 'object' },
  deferred: name === 'later',
  trust: 'built-in',
  gated,
});

function host(overrides: Partial<HostContext> = {}) {
  const asked: string[] = [];
  const progress: unknown[] = [];
  const context: HostContext = {
    runId: 'run',
    tenant: 'acme',
    toolCallId: 'call',
    idempotencyKey: 'key',
    effect: 'once',
    signal: new AbortController().signal,
    progress: (data) => void progress.push(data),
    partial() {},
    secrets: { get: () => '' },
    logger: silentLog,
    emit() {},
    catalogue: () => [tool('add'), tool('later'), tool('pay', true), tool('code_execute'), tool('code_search')],
    promote() {},
    callTool(name, args): Promise<InnerOutcome> {
      asked.push(`${name} ${JSON.stringify(args)}`);
      return Promise.resolve({ ok: true, value: 40 });
    },
    calledBefore: [],
    ...overrides,
  };
  return { context, asked, progress };
}

test('a script calls the tools of the run, and its value is the result', async () => {
  const { context, asked } = host();
  const source = 'return (await tools.add({ a: 1 })) + (await tools.later()) + 2';
  expect(await codeExecute.execute({ source }, context)).toBe(82);
  expect(asked).toEqual(['add {"a":1}', 'later {}']);
});

test('a script finds the tools that an interrupted run of it has called, also where they are gone by now', async () => {
  const { context, asked } = host({ calledBefore: ['add', 'gone'] });
  expect(await codeExecute.execute({ source: 'return await tools.gone({ a: 1 })' }, context)).toBe(40);
  expect(asked).toEqual(['gone {"a":1}']);
});

test('a script starts no scripts', async () => {
  const { context, asked } = host();
  expect(await codeExecute.execute({ source: 'Object.keys(tools)' }, context)).toEqual(['add', 'later', 'pay']);
  await expect(
    Promise.resolve(codeExecute.execute({ source: 'tools.code_execute({ source: "1" })' }, context)),
  ).rejects.toThrow('no such tool');
  expect(asked).toEqual([]);
});

const failures = [
  ['return 1 +', 'invalid_input'],
  ['throw new Error("no")', 'invalid_input'],
  ['return "x".repeat(60_000)', 'invalid_output'],
  ['for (let i = 0; i < 65; i++) await tools.add()', 'sandbox_violation'],
  ['new ArrayBuffer(2e9)', 'sandbox_violation'],
] as const;

test.each(failures)('%j is an error of the call', async (source, kind) => {
  await expect(Promise.resolve(codeExecute.execute({ source }, host().context))).rejects.toMatchObject({ kind });
});

test('a script that returns nothing says what to do, and what it printed goes to subscribers', async () => {
  const { context, progress } = host();
  expect(await codeExecute.execute({ source: 'console.log("seen")' }, context)).toContain('`return`');
  expect(progress).toEqual([{ logs: ['seen'] }]);
});

test('the time that a script sees is that of the first start of its call', async () => {
  const source = 'Date.now()';
  expect(await codeExecute.execute({ source }, host().context)).toBe(1_700_000_000_000);
  expect(await codeExecute.execute({ source }, host({ startedAtMs: 5 }).context)).toBe(5);
});

test('a call that is aborted ends its script', async () => {
  const abort = new AbortController();
  const { context } = host({
    signal: abort.signal,
    callTool: () => {
      abort.abort();
      return new Promise(() => {});
    },
  });
  await expect(Promise.resolve(codeExecute.execute({ source: 'tools.add()' }, context))).rejects.toMatchObject({
    kind: 'aborted',
  });
});

test('the search answers how tools are called, and which cannot be', async () => {
  const { value: text } = (await codeSearch.execute({ query: '', limit: 8 }, host().context)) as ToolOutput;
  expect(text).toContain('tools.add(args?: Record<string, unknown>): Promise<unknown>');
  expect(text).toMatch(/NEEDS APPROVAL.*\n.*tools\.pay/);
  expect(text).not.toContain('code_execute');
});

test.each([
  [codeExecute, { source: 'x'.repeat(100_001) }],
  [codeExecute, {}],
  [codeSearch, { query: 'x'.repeat(513) }],
  [codeSearch, { query: 'x', limit: 26 }],
])('arguments over their bounds are refused', async (checked, args) => {
  expect(await checked.check(args)).toMatchObject({ ok: false });
});

test('the search lets the model call what it finds that needs an approval, and nothing else', async () => {
  const promoted: string[] = [];
  const { context } = host({ promote: (names) => void promoted.push(...names) });
  await codeSearch.execute({ query: '', limit: 8 }, context);
  expect(promoted).toEqual(['pay']);
});
