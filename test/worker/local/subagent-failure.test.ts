import { expect, test } from 'vitest';
import { z } from 'zod';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';

const broken = defineTool({
  name: 'broken',
  description: 'Fails.',
  inputSchema: z.object({}),
  effect: 'read',
  execute: () => {
    throw new Error('out of paper');
  },
});

/** A run whose agent asks another one, which fails, or calls a tool, which fails. */
async function outcomeOf(what: 'agent' | 'tool', failures: Partial<AgentSource>) {
  const call =
    what === 'agent' ? { name: 'ask_agent', args: { agent: 'poet', message: '?' } } : { name: 'broken', args: {} };
  const provider = createScriptedProvider(({ messages }) =>
    messages.some(({ role }) => role === 'tool') ? { text: 'I see.' } : { toolCalls: [call] },
  );
  const boss = defineAgent({ id: 'boss', model: 'm', tools: [broken], subagents: ['poet'], ...failures });
  const poet = defineAgent({ id: 'poet', model: 'm', llmPolicy: () => ({ action: 'deny', reason: 'poets rest' }) });
  const { status, text, error } = await createAgentWith(boss, { agents: [poet], provider, env: {} }).run('Go.');
  return { status, text, code: error?.code };
}

const goesOn = { status: 'completed', text: 'I see.', code: undefined };
const ofAgent = expect.stringMatching(/^another agent failed: .*poets rest/) as string;
const ofTool = expect.stringMatching(/^a tool failed: .*out of paper/) as string;

test.each([
  ['agent', {}, goesOn],
  ['agent', { subagentFailure: 'fail' }, { status: 'failed', code: 'tool_failed' }],
  ['agent', { subagentFailure: 'degrade' }, { status: 'degraded', text: ofAgent }],
  ['agent', { failSafe: { subagentFailurePolicy: 'retry_then_degrade' } }, { status: 'degraded', text: ofAgent }],
  ['agent', { toolFailure: 'fail' }, goesOn],
  ['tool', {}, goesOn],
  ['tool', { subagentFailure: 'fail' }, goesOn],
  ['tool', { toolFailure: 'fail' }, { status: 'failed', code: 'tool_failed' }],
  ['tool', { toolFailure: 'degrade' }, { status: 'degraded', text: ofTool }],
] as const)('a failed %s with %j ends the run as its own policy says', async (what, failures, expected) => {
  expect(await outcomeOf(what, failures)).toMatchObject(expected);
});

test('a call that is one too many for its step is no failure of an agent', async () => {
  const ask = { name: 'ask_agent', args: { agent: 'poet', message: '?' } };
  const provider = createScriptedProvider(({ model, messages }) => {
    if (model === 'poems') return { text: 'A poem.' };
    return messages.some(({ role }) => role === 'tool') ? { text: 'Thanks.' } : { toolCalls: [ask, ask] };
  });
  const limits = { subagentFanoutPerStep: 1 };
  const policies = { toolFailure: 'fail', subagentFailure: 'fail' } as const;
  const boss = defineAgent({ id: 'boss', model: 'm', subagents: ['poet'], limits, ...policies });
  const agents = [defineAgent({ id: 'poet', model: 'poems' })];
  expect(await createAgentWith(boss, { agents, provider, env: {} }).run('Go.')).toMatchObject({ text: 'Thanks.' });
});
