import { expect, test } from 'vitest';
import { silentLog } from '../../../src/shared/log.ts';
import type { ThreadManifest } from '../../../src/shared/thread.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/run/define-agent.ts';
import type { LoadedAgent } from '../../../src/worker/run/load-agents.ts';
import { openToolbox, type ToolboxRun, type ToolServices } from '../../../src/worker/run/toolbox.ts';
import { createCapabilityRegistry, type CapabilityContext } from '../../../src/worker/tools/capabilities.ts';
import { createToolExecutor } from '../../../src/worker/tools/execute.ts';
import { aRecord } from '../../contract/run-fixtures.ts';
import { tool } from '../tools/world.ts';

const skill = {
  name: 'refunds',
  description: 'd',
  trust: 'trusted' as const,
  allowedTools: [],
  folder: '/nowhere',
};

async function toolboxOf(
  source: Partial<AgentSource>,
  services: Partial<ToolServices> = {},
  more: Partial<ToolboxRun & LoadedAgent> = {},
) {
  const agent = { ...defineAgent({ id: 'clerk', model: 'm', ...source }), file: 'clerk.yaml', ...more };
  const state = { initial: [], earlier: [], own: [], handoffs: [] };
  const run: ToolboxRun = { record: aRecord(), emit: () => {}, ...more, state };
  return await openToolbox(agent, run, { log: silentLog, ...services }, new AbortController().signal);
}

/** What the model is told about. */
async function namesOf(...given: Parameters<typeof toolboxOf>): Promise<readonly string[]> {
  await using toolbox = await toolboxOf(...given);
  return createToolExecutor(toolbox.set, toolbox.context)
    .advertised([])
    .map(({ name }) => name);
}

test('capabilities and then injections get one and the same object, with all that is known of the run', async () => {
  const seen: CapabilityContext[] = [];
  const capabilities = createCapabilityRegistry();
  capabilities.inject('notes', (context) => void seen.push(context));
  capabilities.register('one', (context) => void seen.push(context));
  capabilities.register('two', (context) => void seen.push(context));
  const manifest: ThreadManifest = { v: 1, threadId: 't', agentId: 'clerk', createdAt: '', updatedAt: '' };
  const services = { capabilities, workspaceOf: () => '/files/clerk', directoriesOf: () => ['/files/a'] };
  await toolboxOf({ capabilities: ['one', 'two'] }, services, { manifest, folder: '/agents' });
  expect(seen).toHaveLength(3);
  expect(new Set(seen).size).toBe(1);
  expect(seen[0]).toMatchObject({
    agentDir: '/agents',
    workspaceDir: '/files/clerk',
    directories: ['/files/a'],
    manifest,
    background: false,
  });
});

test('what is injected takes the place of what a capability brings, also where the agent names none', async () => {
  const capabilities = createCapabilityRegistry();
  capabilities.register('one', () => ({ tools: [tool('notify', () => 'capability'), tool('other', () => 1)] }));
  capabilities.inject('late', () => ({ tools: [{ ...tool('notify', () => 'injected'), deferLoading: true }] }));
  expect(await namesOf({}, { capabilities })).toEqual(['tool_search']);
  expect(await namesOf({ capabilities: ['one'] }, { capabilities })).toEqual(['other', 'tool_search']);
});

test('an agent with skills can read them, under that very name, also from scripts', async () => {
  expect(await namesOf({})).toEqual([]);
  const own = { skills: [skill], tools: [tool('read_skill', () => 1)] };
  expect(await namesOf({}, {}, own)).toEqual(['read_skill', 'user-defined__read_skill']);
  expect(await namesOf({ toolInvocation: 'code-mode' }, { codeTools: [tool('code_execute', () => 1)] }, own)).toEqual([
    'read_skill',
    'code_execute',
  ]);
});

test('tools are told of the folders of their agent', async () => {
  await using toolbox = await toolboxOf({}, { directoriesOf: () => ['/files/a'] });
  expect(toolbox.context.directories).toEqual(['/files/a']);
});
