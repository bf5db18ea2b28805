import { stripTypeScriptTypes } from 'node:module';
import { expect, test } from 'vitest';
import { savedTest } from '../../../../src/producer/console/views/run/record/saved-test.ts';

const source = savedTest({ exportName: "o'neil.export.json", agent: "o'neil", runId: '01M8' });

/** Runs the file with these in place of its imports. */
async function ran(testing: Record<string, (...args: readonly unknown[]) => unknown>) {
  const body = stripTypeScriptTypes(source)
    .replaceAll(/^import .*$/gm, '')
    .replaceAll('import.meta.dirname', "'/tests'");
  const names = ['test', 'join', ...Object.keys(testing)];
  const module = `data:text/javascript,${encodeURIComponent(`export default (${names.join(', ')}) => {${body}}`)}`;
  const { default: run } = (await import(module)) as { default: (...args: readonly unknown[]) => void };
  const tests: { name: string; work: () => Promise<void> }[] = [];
  const collect = (name: string, work: () => Promise<void>) => void tests.push({ name, work });
  run(collect, (...parts: readonly string[]) => parts.join('/'), ...Object.values(testing));
  for (const { work } of tests) await work();
  return tests.map(({ name }) => name);
}

test('a saved test replays the export beside it against the agent of its folder', async () => {
  const calls: unknown[] = [];
  const names = await ran({
    agentFrom: (...args) => (calls.push(['agentFrom', ...args]), 'the agent'),
    replayExport: (...args) => (calls.push(['replayExport', ...args]), 'the replay'),
    assertNoDepartures: (...args) => calls.push(['assertNoDepartures', ...args]),
  });
  expect(names).toEqual(["o'neil does what it did in run 01M8"]);
  expect(calls).toEqual([
    ['agentFrom', 'agents', "o'neil"],
    ['replayExport', "/tests/o'neil.export.json", 'the agent'],
    ['assertNoDepartures', 'the replay'],
  ]);
});
