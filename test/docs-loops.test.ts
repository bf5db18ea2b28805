import { expect, test } from 'vitest';
import { incompleteReason } from '../src/shared/contract/event.ts';
import { runRequest } from '../src/shared/contract/run.ts';
import { loopGuard } from '../src/shared/contract/agent/loop-guard.ts';
import { unfinishedWork } from '../src/shared/contract/unfinished.ts';
import { docsPage, pageAgents, pageFiles } from './support/docs-page.ts';
import { firstCells } from './support/markdown.ts';

const page = docsPage('loops-and-limits.md');

test('the agents of the page are ones that workers load', async () => {
  const { folder, names } = pageFiles(page);
  const { agents, problems } = await pageAgents(folder);
  expect(problems).toEqual([]);
  expect(agents.size).toBe(names.length);
});

test('the table of the loop guard has its fields with their defaults', () => {
  expect(firstCells(page, 'The loop guard')).toEqual(Object.keys(loopGuard.shape));
  const rows = page.split('\n').filter((line) => line.startsWith('| `'));
  for (const [field, value] of Object.entries(loopGuard.parse({})))
    expect(
      rows
        .find((row) => row.startsWith(`| \`${field}\``))
        ?.split('|')[2]
        ?.trim(),
      field,
    ).toBe(String(value));
});

test('the table of what stays of a run has the fields of the contract', () => {
  expect(firstCells(page, 'What stays of a run without an answer')).toEqual(Object.keys(unfinishedWork.shape));
});

test('the table of limits has every reason of an incomplete answer', () => {
  expect(firstCells(page, 'Landing at a limit')).toEqual(incompleteReason.options);
});

test('the request of the page is one that is accepted, and lands', () => {
  const [body = ''] = [...(/-d '(.+)'/g.exec(page)?.slice(1) ?? [])];
  expect(runRequest.parse(JSON.parse(body)).limits).toEqual({ maxSteps: 3, closingAnswer: true });
});
