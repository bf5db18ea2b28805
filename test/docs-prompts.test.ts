import { pageAgents, pageFolder } from './support/docs-page.ts';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { maxInstructionsChars } from '../src/shared/contract/agent/agent.ts';
import { runRequest } from '../src/shared/contract/run.ts';
import { codeBlocks, firstCells } from './support/markdown.ts';

const root = join(import.meta.dirname, '..');
const page = readFileSync(join(root, 'docs/prompts-and-skills.md'), 'utf8');

/** Writes the files of the page, and the tool that they name, into a folder. */
function promptFolder(): string {
  const folder = pageFolder();
  const files = ['ts', 'yaml', 'md'].flatMap((language) =>
    codeBlocks(page, language).map((code): [string, string] => {
      const [name = 'nameless'] = /agents\/[\w./-]+/.exec(code) ?? [];
      return [name, code];
    }),
  );
  expect(files.map(([name]) => name)).toEqual([
    'agents/clerk.ts',
    'agents/tasks/monday.yaml',
    'agents/refunder.yaml',
    'agents/skills/refunds/SKILL.md',
  ]);
  const tool = 'agents/tools/lookup_order.ts';
  for (const [name, code] of [...files, [tool, readFileSync(join(root, tool), 'utf8')] as const]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), code);
  }
  return folder;
}

test('every file on the page about prompts is one that a worker reads', async () => {
  const { agents, tasks, problems, warnings } = await pageAgents(promptFolder());
  expect(problems).toEqual([]);
  // The clerk has no tools at all.
  expect(warnings).toEqual(['clerk.ts: skill refunds is written for tools that the agent does not have: lookup_order']);
  expect([...agents.keys()].toSorted()).toEqual(['clerk', 'refunder']);
  const task = tasks.get('monday');
  const clerk = agents.get('clerk');
  const prompt = await clerk?.prompt?.(clerk.definition, { directories: [], background: true, ...(task && { task }) });
  expect(prompt).toMatch(/^You keep the books[^]*Work on this: Close the books of last week[^]*notify_user/);
});

test('the request on the page is one', () => {
  const [, json = ''] = /-d '(\{.*\})'/.exec(codeBlocks(page, 'sh').join('\n')) ?? [];
  expect(runRequest.parse(JSON.parse(json))).toMatchObject({ agent: 'clerk', task: 'monday' });
});

test('the page names what a builder gets, and its bounds', () => {
  expect(firstCells(page, 'A prompt builder')).toEqual([
    'agent',
    'cwd',
    'directories',
    'task',
    'background',
    'threadId',
  ]);
  expect(page).toContain(`more than ${maxInstructionsChars.toLocaleString('en')} characters`);
});
