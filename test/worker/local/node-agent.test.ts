import { expect, test } from 'vitest';
import { z } from 'zod';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { createAgentNodeExecutor, type NodeExecutorDeps } from '../../../src/worker/local/node-executor.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  effect: 'read',
  inputSchema: z.object({ at: z.string(), key: z.string().optional() }),
  execute: ({ at, key }) => `${at} with ${key ?? 'no key'}`,
});

const callsOnce: ModelScript = ({ messages }) =>
  messages.some(({ role }) => role === 'tool')
    ? { text: 'Done.' }
    : { toolCalls: [{ name: 'look', args: { at: 'the sea' } }] };

/** Runs a node of this agent; the requests have what the model was sent. */
async function runNode(
  agent: Partial<AgentSource>,
  deps: Partial<NodeExecutorDeps> = {},
  script: ModelScript = callsOnce,
) {
  const requests: LlmRequest[] = [];
  const events: EventBody[] = [];
  const provider = createScriptedProvider((request, signal) => {
    requests.push(request);
    return script(request, signal);
  });
  const execute = createAgentNodeExecutor({ resolveProvider: () => provider, ...deps });
  const outcome = await execute({
    vertex: {
      type: 'agent',
      id: 'n',
      agent_ref: 'writer',
      prompt_template: 'Hello',
      resolvedAgent: defineAgent({ id: 'writer', model: 'm', tools: [look], ...agent }),
    },
    emit: (body) => void events.push(body),
    signal: new AbortController().signal,
  });
  return { outcome, requests, events };
}

const rule = { ruleId: 'no-looks', action: 'deny' } as const;
const plain = { name: 'look', description: 'Looks.', inputSchema: z.object({}), execute: () => 'x' };
const approved = defineTool({ ...plain, needsApproval: true });
const keyed = defineTool({ ...plain, secretsAllowed: ['CRM'] });

test.each<[what: string, agent: Partial<AgentSource>, named: string]>([
  ['rules', { policies: [rule] }, 'policies: '],
  ['a sandbox', { trust: 'sandbox' }, 'trust: '],
  ['a capability', { capabilities: ['mail'] }, 'capabilities: '],
  [
    'a server',
    { mcpServers: { files: { command: 'files' } }, tools: [look, 'mcp:files'] },
    'tools: there is no server for mcp:files',
  ],
  ['other agents to ask', { subagents: ['*'] }, 'subagents: '],
  ['other agents as tools', { agentTools: { ask: { agent: 'clerk' } } }, 'agentTools: '],
  ['other agents to hand over to', { handoffs: ['clerk'] }, 'handoffs: '],
  ['scripts', { toolInvocation: 'code-mode' }, 'toolInvocation: '],
  ['folders', { directories: ['docs'] }, 'directories: '],
  ['a budget', { budget: { maxCostUsd: 1 } }, 'budget: '],
  ['a skill', { skills: ['taxes'] }, 'there is no skill taxes'],
  ['people, by its tool', { tools: [approved] }, 'tool look: there is no person to approve'],
  [
    'people, by its options',
    { toolOptions: { look: { needsApproval: true } } },
    'tool look: there is no person to approve',
  ],
  ['a deadline', { limits: { deadlineMs: 1_000, maxIterations: 2 } }, 'limits.deadlineMs: no deadline is watched here'],
  ['a secret of a tool', { tools: [keyed] }, 'tool look: secrets does not have CRM'],
  [
    'a secret in an argument',
    { toolOptions: { look: { args: { key: { secret: 'CRM' } } } } },
    'tool look: secrets does not have CRM',
  ],
])('a node of an agent that needs %s is refused with what is not there', async (_, agent, named) => {
  const { outcome, requests } = await runNode(agent);
  expect(outcome).toMatchObject({ kind: 'failed', retryable: false });
  expect(outcome.kind === 'failed' && outcome.message).toContain(named);
  expect(requests).toEqual([]);
});

test('everything that a node cannot give its agent is named at once', async () => {
  const { outcome } = await runNode({ policies: [rule], handoffs: ['clerk'], toolInvocation: 'code-mode' });
  expect(outcome).toMatchObject({ kind: 'failed', code: 'validation' });
  expect(outcome.kind === 'failed' && outcome.message.split('\n  ').map((line) => line.split(':')[0])).toEqual([
    'agent writer cannot be run by this node executor',
    'policies',
    'handoffs',
    'toolInvocation',
  ]);
});

test('a node sets the arguments that its agent sets, with the secrets of its host, which the model never sees', async () => {
  const { outcome, requests, events } = await runNode(
    { toolOptions: { look: { args: { key: { secret: 'CRM' } } } } },
    { secrets: { CRM: 'canary-of-the-crm' } },
  );
  expect(outcome).toMatchObject({ kind: 'completed' });
  expect(Object.keys(requests[0]?.tools?.[0]?.parameters['properties'] ?? {})).toEqual(['at']);
  expect(requests[1]?.messages.find(({ role }) => role === 'tool')).toMatchObject({
    content: 'the sea with [redacted]',
  });
  expect(JSON.stringify([requests, events, outcome])).not.toContain('canary');
});

test('a node of a headless agent denies what a person would have to allow, and the model reads why', async () => {
  const { outcome, requests } = await runNode({ interaction: 'headless', tools: [approved], toolFailure: 'feed_back' });
  expect(outcome).toMatchObject({ kind: 'completed', output: 'Done.' });
  expect(requests[1]?.messages.find(({ role }) => role === 'tool')).toMatchObject({ isError: true });
});

test('a node finds the tools that its agent defers', async () => {
  const { requests } = await runNode({ toolOptions: { look: { deferLoading: true } } }, {}, () => ({ text: 'Done.' }));
  expect(requests[0]?.tools?.map(({ name }) => name)).toEqual(['tool_search']);
});

test('a node asks the rule of its agent about model calls', async () => {
  const { outcome, requests } = await runNode({ llmPolicy: () => ({ action: 'deny', reason: 'not today' }) });
  expect(outcome).toMatchObject({ kind: 'failed', code: 'policy_denied', message: 'not today' });
  expect(requests).toEqual([]);
});

test('a node asks its agent before each step, and the model reads that results are data', async () => {
  const { requests } = await runNode({ prepareStep: ({ stepNumber }) => ({ model: `m${stepNumber}` }) });
  expect(requests.map(({ model }) => model)).toEqual(['m1', 'm2']);
  expect(requests.map(({ messages }) => messages.filter(({ role }) => role === 'system').length)).toEqual([0, 1]);
});

test('a node whose tool lacks something here ends, and the model is not asked what to do about it', async () => {
  const keyed = defineTool({ ...plain, secretsAllowed: ['CRM'], execute: (_, { secrets }) => secrets.get('CRM') });
  const { outcome, requests } = await runNode({ tools: [keyed] }, { secrets: { OTHER: 'something' } });
  expect(outcome).toMatchObject({ kind: 'failed', code: 'internal', retryable: false });
  expect(outcome.kind === 'failed' && outcome.message).toContain('does not have the secret CRM');
  expect(requests).toHaveLength(1);
});
