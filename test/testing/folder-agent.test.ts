import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import {
  agentFrom,
  assertCalls,
  assertCompleted,
  byAgent,
  calls,
  scriptedModel,
  testAgent,
} from '../../src/testing/index.ts';
import { pageFolder } from '../support/docs-page.ts';

function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = pageFolder();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

test('the sample agent is tested as a worker would load it', async () => {
  const support = await agentFrom(join(import.meta.dirname, '../../agents'), 'support');
  const model = [calls('lookup_order', { order: '7' }), 'It comes next week.'];
  const run = await testAgent(support, { model }).run('Where is order 7?');
  assertCompleted(run, 'It comes next week.');
  assertCalls(run, [{ name: 'lookup_order', args: { order: '7' } }]);
  expect(run.calls[0]?.result).toContain('Order 7 waits');
});

test('tools, skills, capabilities, built-in tools and other agents of the folder are there', async () => {
  const folder = folderOf({
    'agents/chief.yaml': [
      'model: gpt-5.2-mini',
      'tools: [progress_write, greet]',
      'skills: [manners]',
      'capabilities: [waving]',
      'subagents: [helper]',
    ].join('\n'),
    'agents/helper.yaml': 'model: gpt-5.2-mini\ndescription: Helps.',
    'agents/tools/greet.mjs': `
      import { defineTool } from 'millrace/worker';
      import { z } from 'zod';
      export const greet = defineTool({ name: 'greet', description: 'Greets.', inputSchema: z.object({}), execute: () => 'hello' });`,
    'agents/capabilities/waving.mjs': `
      import { defineTool } from 'millrace/worker';
      import { z } from 'zod';
      export default () => ({
        tools: [defineTool({ name: 'wave', description: 'Waves.', inputSchema: z.object({}), execute: () => 'waved' })],
      });`,
    'agents/skills/manners/SKILL.md': '---\nname: manners\ndescription: How to greet.\n---\nSay hello first.',
  });
  const chief = [calls('greet'), calls('wave'), calls('read_skill', { name: 'manners' }), 'Done.'];
  const model = scriptedModel(byAgent({ chief, helper: ['I help.'] }));
  const run = await testAgent(await agentFrom(join(folder, 'agents'), 'chief'), { model }).run('Greet.');
  assertCompleted(run, 'Done.');
  assertCalls(run, [{ name: 'greet' }, { name: 'wave' }, { name: 'read_skill' }]);
  expect(run.requests[0]?.tools?.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['progress_write', 'ask_agent', 'greet', 'wave']),
  );
  expect(run.requests.at(-1)?.messages.at(-1)).toMatchObject({ content: expect.stringContaining('Say hello first.') });
  const note = [calls('progress_write', { content: 'One is done.' }), 'Noted.'];
  const written = await testAgent(await agentFrom(join(folder, 'agents'), 'chief'), { model: note }).run('Write.');
  expect(written.calls.map(({ name, error }) => [name, error?.kind])).toEqual([['progress_write', undefined]]);
});

test('every problem of the folder is an error, and an agent that is not there is named', async () => {
  const folder = folderOf({ 'agents/bad.yaml': 'modle: x', 'agents/worse.yaml': 'model: m\ntools: [absent]' });
  const loading = agentFrom(join(folder, 'agents'), 'bad');
  await expect(loading).rejects.toMatchObject({ code: 'agent_manifest_invalid' });
  await expect(loading).rejects.toThrow(/bad\.yaml[\s\S]*worse\.yaml:2: there is no tool absent/);
  const good = folderOf({ 'agents/support.yaml': 'model: m' });
  await expect(agentFrom(join(good, 'agents'), 'suport')).rejects.toThrow(
    /no agent suport in .*; did you mean support|no agent suport in .*; known are support/,
  );
});
