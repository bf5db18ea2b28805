import { docsPage, pageFiles } from './support/docs-page.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { taskResult, taskSettings, taskStoppedBy } from '../src/shared/contract/orchestration/task.ts';
import type { AgentAdapter, AgentManifest, TaskOutcome } from '../src/worker/index.ts';
import { scriptedModel } from '../src/testing/scripted-model.ts';
import { always } from '../src/testing/scripts.ts';
import { loadAgents } from '../src/worker/agents/load-agents.ts';
import { defineAgentManifest, type SurfaceName } from '../src/worker/local/manifest/define-manifest.ts';
import { runManifest } from '../src/worker/local/manifest/run-manifest.ts';
import { runAgentTask } from '../src/worker/orchestration/task/run-task.ts';
import { firstCells } from './support/markdown.ts';

const page = docsPage('tasks-and-manifests.md');

async function load<Module>(folder: string, name: string): Promise<Module> {
  // The hook that finds this package for the files of the page.
  await loadAgents(join(folder, 'agents'));
  return (await import(/* @vite-ignore */ pathToFileURL(join(folder, name)).href)) as Module;
}

test('the adapter on the page is one that a worker loads, and it does what the page says', async () => {
  const { folder, names } = pageFiles(page);
  expect(names).toEqual(['agents/adapters/tidy-up.ts', 'answer.ts', 'benchmark/support.ts']);
  const { adapters, problems } = await loadAgents(join(folder, 'agents'));
  expect(problems).toEqual([]);
  const adapter = adapters.get('tidy-up');
  if (!adapter) throw new Error('the page has lost its adapter');
  expect(await runAgentTask(adapter, { task: { id: 'shelf-7' } })).toMatchObject({
    status: 'completed',
    reason: 'the shelf is sorted',
    score: 1,
    finalState: { shelf: ['a', 'b', 'c'] },
    steps: [{ outcome: { result: { sorted: true } } }],
  });
});

test('the answer on the page goes on with a task from a file', async () => {
  const { folder } = pageFiles(page);
  type Answer = { answer: (file: string, text: string, adapter: AgentAdapter) => Promise<TaskOutcome> };
  const { answer } = await load<Answer>(folder, 'answer.ts');
  const adapter: AgentAdapter = {
    observe: () => null,
    validate: () => [],
    decide: ({ history }) =>
      history.length === 0
        ? { type: 'ask', question: 'Who?' }
        : { type: 'stop', reason: JSON.stringify(history[0]?.outcome), pass: true },
    act: () => null,
  };
  const asked = await runAgentTask(adapter, { task: { id: 'who' } });
  writeFileSync(join(folder, 'state.json'), JSON.stringify(asked.status === 'suspended' && asked.state));
  const outcome = await answer(join(folder, 'state.json'), 'Ann', adapter);
  expect(outcome).toMatchObject({ status: 'completed', reason: expect.stringContaining('"Ann"') });
});

test('the manifest on the page is one that can be measured', async () => {
  const { folder } = pageFiles(page);
  const { manifest } = await load<{ manifest: AgentManifest<string> }>(folder, 'benchmark/support.ts');
  const provider = scriptedModel(always('Yes.'));
  expect((await runManifest(manifest, 'Is order 7 there?', { provider })).score.score).toBe(1);
});

test('the page has the bounds and defaults that the code has', () => {
  const { budget, stopPolicies, onActionFailure } = taskSettings.parse({ task: { id: 'x' } });
  const settings: Record<string, unknown> = {
    ...Object.fromEntries(Object.entries(budget).map(([name, value]) => [`budget.${name}`, value])),
    ...Object.fromEntries(Object.entries(stopPolicies).map(([name, value]) => [`stopPolicies.${name}`, value])),
    onActionFailure,
  };
  const rows = page.split('\n').filter((line) => /^\| `(budget\.|stopPolicies\.|onActionFailure)/.test(line));
  expect(rows.length).toBe(7);
  const listed = rows.flatMap((row) => {
    const [name = '', value = ''] = row
      .split('|')
      .slice(1, 3)
      .map((cell) => cell.trim().replaceAll('`', ''));
    return value === '' ? [] : [[name, value]];
  });
  expect(listed).toEqual(Object.entries(settings).map(([name, value]) => [name, String(value)]));
});

test('the page lists exactly the ways in which a task ends, and the functions of an adapter', () => {
  const ends = firstCells(page, 'How a task ends');
  const statuses = taskResult.options.map((option) => option.shape.status.value);
  expect(new Set(ends)).toEqual(new Set([...statuses, 'suspended', ...taskStoppedBy.options]));
  expect(ends).toHaveLength(10);
  const functions = firstCells(page, 'An adapter').map((cell) => cell.replace('?', ''));
  const all: Record<Exclude<keyof AgentAdapter, 'id'>, true> = {
    observe: true,
    validate: true,
    decide: true,
    act: true,
    shouldStop: true,
    onKnowledgeBlocked: true,
    getActionCostUsd: true,
    mostUsd: true,
    limits: true,
  };
  expect(functions).toEqual(Object.keys(all));
});

test('the page lists the surfaces that a manifest may have', () => {
  const [, folders = '', files = ''] = /Surfaces that are folders: ([^.]*)\. Files: ([^.]*)\./.exec(page) ?? [];
  const listed = (text: string) => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name as SurfaceName);
  const problems = (names: readonly SurfaceName[]): unknown => {
    const surfaces = Object.fromEntries(names.map((name) => [name, 'nowhere']));
    const act = () => ({ events: (async function* () {})(), output: Promise.resolve(1) });
    try {
      const rubric = { dimensions: [{ id: 'a', weight: 1 }] };
      return defineAgentManifest({ id: 'm', repoRoot: import.meta.dirname, surfaces, rubric, run: { act } });
    } catch (error) {
      return (error as { details: unknown }).details;
    }
  };
  expect(listed(folders)).toHaveLength(13);
  expect(listed(files)).toEqual(['prompt', 'rubric', 'outputSchema']);
  const missing = (names: readonly SurfaceName[]) => names.map((name) => `surfaces.${name}: nowhere is missing`);
  const others = listed(files).filter((name) => name !== 'prompt');
  expect(problems(listed(folders))).toEqual(missing(listed(folders)));
  expect(problems(others)).toEqual(missing(others));
});
