import { docsPage, pageAgents, pageFiles } from './support/docs-page.ts';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const page = docsPage('tools.md');

test('every file on the page about tools is one that a worker reads', async () => {
  const { folder, names } = pageFiles(page);
  expect(names).toEqual([
    'agents/tools/orders.ts',
    'agents/support.yaml',
    'agents/careful.yaml',
    'agents/clerk.yaml',
    'agents/librarian.yaml',
    'policies.yaml',
  ]);
  const env = { MILLRACE_POLICIES: join(folder, 'policies.yaml') };
  const { agents, problems, warnings } = await pageAgents(folder, env);
  expect([problems, warnings]).toEqual([[], []]);
  expect([...agents.keys()].sort()).toEqual(['careful', 'clerk', 'librarian', 'support']);
});
