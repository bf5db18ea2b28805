import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import * as testing from '../src/testing/index.ts';
import { llmErrorKind } from '../src/worker/llm/errors.ts';
import type { ScriptedAnswer } from '../src/worker/llm/backends/scripted.ts';
import type { TestRun } from '../src/testing/index.ts';
import { builtEntry } from './support/entries.ts';
import { childEnv } from './support/child-env.ts';
import { docsPage, pageFiles, pageFolder } from './support/docs-page.ts';
import { firstCells } from './support/markdown.ts';
import { chat, startRawProvider } from './support/raw-provider.ts';

const root = join(import.meta.dirname, '..');
const page = docsPage('testing-agents.md');

const run = promisify(execFile);
/** The doors of the package, bundled: that they are there soon is what makes a second run cheap. */
function doors(): Record<string, string> {
  const at = (door: string) => builtEntry(join(root, `src/${door}/index.ts`));
  return { 'millrace/testing': at('testing'), 'millrace/worker': at('worker') };
}

/** Runs the test files of the page as a user does, in a process of their own. */
async function vitest(folder: string, env: Record<string, string> = {}) {
  const test = {
    isolate: false,
    maxWorkers: 1,
    testTimeout: 60_000,
    server: { deps: { external: [`${root}/.cache/`] } },
  };
  const config = JSON.stringify({ resolve: { alias: doors() }, test });
  writeFileSync(join(folder, 'vitest.config.mjs'), `export default ${config};`);
  const report = join(folder, 'report.json');
  const args = [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--reporter=json', '--outputFile', report];
  const ended = await run(process.execPath, args, { cwd: folder, env: childEnv(env) }).catch((error) => error);
  if (!existsSync(report)) throw new Error(`vitest wrote no report:\n${ended.stdout}${ended.stderr}`);
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
    testResults: { name: string; message: string; status: string }[];
  };
  return testResults.map(({ name, message, status }) => ({ name: name.slice(folder.length + 1), message, status }));
}

test('every test on the page passes, offline where it says so', { timeout: 300_000 }, async () => {
  const { folder } = pageFiles(page, pageFolder({ inCheckout: true }));
  await using provider = await startRawProvider(chat(() => ({ text: 'Hello to you.' })));
  const passed = (name: string) => ({ name, message: '', status: 'passed' });
  const files = ['model.test.ts', 'people.test.ts', 'recorded.test.ts', 'support.test.ts', 'time.test.ts'];
  const online = { OPENAI_API_KEY: 'sk-proj-secret-of-the-page', OPENAI_BASE_URL: provider.url };
  const first = await vitest(folder, online);
  expect(first.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual(files.map(passed));
  expect(provider.requests).toHaveLength(1);
  const recording = join(folder, 'recordings/greeting.json');
  expect(existsSync(recording)).toBe(true);
  expect(readFileSync(recording, 'utf8')).not.toContain('secret-of-the-page');
  const again = await vitest(folder);
  expect(again.map(({ status }) => status)).toEqual(files.map(() => 'passed'));
  expect(provider.requests).toHaveLength(1);

  const hook = `import { registerHooks } from 'node:module';
    const own = ${JSON.stringify(Object.fromEntries(Object.entries(doors()).map(([name, path]) => [name, pathToFileURL(path).href])))};
    registerHooks({ resolve: (name, context, next) => (own[name] ? { url: own[name], shortCircuit: true } : next(name, context)) });`;
  const args = ['--import', `data:text/javascript,${encodeURIComponent(hook)}`, '--test', 'support.node.ts'];
  expect((await run(process.execPath, args, { cwd: folder, env: childEnv() })).stdout).toContain('pass 1');
});

test('the page names every function, and the parts and kinds that there are', () => {
  const functions = Object.keys(testing).filter((name) => name !== 'FakeClock');
  for (const name of functions.filter((one) => !['always', 'byAgent', 'callsTool', 'inOrder'].includes(one)))
    expect([name, page.includes(name)]).toEqual([name, true]);
  const parts = {
    text: 1,
    reasoning: 1,
    toolCalls: 1,
    usage: 1,
    finishReason: 1,
    afterMs: 1,
    deltaMs: 1,
    error: 1,
    hangs: 1,
  } as const satisfies Record<keyof ScriptedAnswer, 1>;
  expect(firstCells(page, 'The model')).toEqual(Object.keys(parts));
  for (const kind of llmErrorKind.options.filter((one) => one !== 'cancelled')) expect(page).toContain(`\`${kind}\``);
});

test('the page has every field of a run', () => {
  const fields = {
    status: 1,
    text: 1,
    output: 1,
    error: 1,
    unfinished: 1,
    calls: 1,
    costMicrocents: 1,
    usage: 1,
    steps: 1,
    durationMs: 1,
    events: 1,
    requests: 1,
    pending: 1,
    approve: 1,
    deny: 1,
    answer: 1,
    decide: 1,
    expire: 1,
  } as const satisfies Record<Exclude<keyof TestRun, 'runId' | 'result'>, 1>;
  expect(Object.keys(fields).filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
});
