import { docsPage, pageAgents, pageFiles } from './support/docs-page.ts';
import { expect, test } from 'vitest';
import { compaction } from '../src/shared/contract/agent/agent.ts';
import { firstCells } from './support/markdown.ts';

const page = docsPage('context.md');

test('every file on the page about long conversations is one that a worker reads', async () => {
  const { agents, problems, warnings } = await pageAgents(pageFiles(page).folder);
  expect([problems, warnings]).toEqual([[], []]);
  expect([...agents.keys()].sort()).toEqual(['clerk', 'researcher']);
  expect(agents.get('clerk')?.postCompactionHooks).toHaveLength(2);
});

test('the page lists exactly the fields of compaction', () => {
  expect(firstCells(page)).toEqual(Object.keys(compaction.shape));
});
