import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import type { CreateAgentOptions } from '../../../src/worker/local/agent-handle.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { runStateFromJSON, runStateToJSON } from '../../../src/worker/local/run-state.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import type { LlmProvider } from '../../../src/worker/llm/provider.ts';
import { until } from '../../support/redis.ts';

/** Asks for two payments, then reports the results. */
function payingModel(): LlmProvider & { readonly calls: () => number } {
  let calls = 0;
  const call = (id: string, to: string) => ({
    type: 'tool_call' as const,
    id,
    name: 'pay',
    args: JSON.stringify({ to }),
  });
  return {
    id: 'model',
    calls: () => calls,
    capabilities: { tools: true, reasoning: false },
    async generate({ messages }) {
      calls++;
      const results = messages.filter(({ role }) => role === 'tool');
      const parts =
        results.length === 0
          ? [call('a', 'ada'), call('b', 'bob')]
          : [{ type: 'text' as const, text: `${results.length} results` }];
      const message = { role: 'assistant' as const, parts };
      return { message, finishReason: results.length === 0 ? 'tool_use' : 'stop', incompleteToolCalls: [] };
    },
  };
}

function payingAgent(options: Omit<CreateAgentOptions, 'env'> = {}, ttlMs = 60_000) {
  const paid: string[] = [];
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    inputSchema: z.object({ to: z.string() }),
    needsApproval: true,
    execute: ({ to }) => void paid.push(to),
  });
  const definition = defineAgent({ id: 'payer', model: 'm', tools: [pay], approvals: { ttlMs } });
  const provider = payingModel();
  const make = () => createAgentWith(definition, { provider, env: {}, ...options });
  return { paid, definition, provider, make, agent: make() };
}

test('a run that needs people ends as suspended, and goes on as they decide', async () => {
  const { agent, paid, provider } = payingAgent();
  const { runId, status } = await agent.run('Pay them.');
  expect([status, paid]).toEqual(['suspended', []]);
  const first = await agent.resume(runId, { approvals: [{ toolCallId: 'a', granted: true }] }, 'kim').result;
  expect([first.status, paid]).toEqual(['suspended', ['ada']]);
  const last = await agent.resume(runId, { approvals: [{ toolCallId: 'b', granted: false, reason: 'no' }] }).result;
  expect([last.status, last.text, paid]).toEqual(['completed', '2 results', ['ada']]);
  expect(provider.calls()).toBe(2);
});

describe('the registry of an agent', () => {
  const tool = (name: string, deferLoading: boolean) =>
    defineTool({ name, description: name, inputSchema: z.object({}), deferLoading, execute: () => 1 });
  const names = (listings: readonly { readonly name: string }[]) => listings.map(({ name }) => name);
  const poet = defineAgent({ id: 'poet', model: 'm', description: 'Rhymes.' });
  const handleOf = (source: Partial<AgentSource>) =>
    createAgentWith(defineAgent({ id: 'x', model: 'm', ...source }), {
      provider: payingModel(),
      agents: [poet],
      env: {},
    });

  test('can be looked at, and not changed', () => {
    const { registry } = handleOf({ tools: [tool('now', false)] });
    expect(registry.listEager()).toEqual([{ name: 'now', description: 'now' }]);
    expect(registry.listDeferred()).toEqual([]);
    expect(Object.isFrozen(registry)).toBe(true);
  });

  test('has the tools that this package adds, other agents and handoffs beside its own', () => {
    const { registry, tools } = handleOf({
      tools: [tool('now', false), tool('later', true)],
      subagents: ['poet'],
      agentTools: { rhyme: { agent: 'poet' } },
      handoffs: ['poet'],
      toolOptions: { now: { truncationStrategy: 'spill-to-file' } },
    });
    const eager = ['now', 'list_agents', 'ask_agent', 'rhyme', 'transfer_to_poet', 'tool_search', 'read_result'];
    expect(names(registry.listEager()).toSorted()).toEqual(eager.toSorted());
    expect(names(registry.listDeferred())).toEqual(['later']);
    expect(names(tools).toSorted()).toEqual([...eager, 'later'].toSorted());
  });

  test('in code mode shows the tools that run scripts, and has the others for those', () => {
    const { registry, tools } = handleOf({ tools: [tool('now', false)], toolInvocation: 'code-mode' });
    expect(names(registry.listEager())).toEqual(['code_execute', 'code_search']);
    expect(names(tools)).toContain('now');
  });
});

test('a decision about nothing that waits leaves the handle free for the next run', async () => {
  const { agent } = payingAgent();
  const { runId } = await agent.run('Pay them.');
  const wrong = agent.resume(runId, { approvals: [{ toolCallId: 'z', granted: true }] });
  await expect(wrong.result).rejects.toMatchObject({ code: 'approval_not_pending' });
  expect((await agent.run('Again.')).status).toBe('suspended');
});

test('a run goes on in another process from its state, where the other one was', async () => {
  const { agent, definition, make, paid, provider } = payingAgent();
  const { runId } = await agent.run('Pay them.');
  const text = runStateToJSON(agent.state(runId));
  expect(runStateFromJSON(text, definition)).toEqual(agent.state(runId));
  const approvals = ['a', 'b'].map((toolCallId) => ({
    toolCallId,
    granted: true,
    updatedArgs: { to: `${toolCallId}!` },
  }));
  const end = await make().run(runStateFromJSON(text, definition), { directive: { approvals }, by: 'kim' });
  expect([end.status, end.runId, paid]).toEqual(['completed', runId, ['a!', 'b!']]);
  expect(provider.calls()).toBe(2);
});

test('arguments that the tool does not take decide nothing, and the approval stays open', async () => {
  const { agent, paid } = payingAgent();
  const { runId } = await agent.run('Pay them.');
  const grant = (toolCallId: string, updatedArgs: Record<string, unknown>) =>
    agent.resume(runId, { approvals: [{ toolCallId, granted: true, updatedArgs }] }).result;
  await expect(grant('a', { to: 7 })).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining('call a does not take these arguments: to: must be string'),
  });
  expect((await grant('a', { to: 'eve' })).status).toBe('suspended');
  expect((await grant('b', { to: 'kim' })).status).toBe('completed');
  expect(paid).toEqual(['eve', 'kim']);
});

test('a run that has ended cannot be entered again', async () => {
  const { agent, make } = payingAgent({ onPending: async () => ({ granted: true }) });
  const { runId } = await agent.run('Pay them.');
  await expect(make().run(agent.state(runId))).rejects.toMatchObject({ code: 'already_terminal' });
  expect(() => agent.state('01JZ0000000000000000000000')).toThrow('no run');
});

describe('a person in the process', () => {
  test('is asked about each call', async () => {
    const { agent, paid } = payingAgent({
      onPending: async (item) => ({ granted: item.args?.['to'] === 'bob', reason: 'only bob' }),
    });
    const { status } = await agent.run('Pay them.');
    expect([status, paid]).toEqual(['completed', ['bob']]);
  });

  test('who cannot be asked has denied', async () => {
    const { agent, paid } = payingAgent({
      onPending: async () => {
        throw new Error('no terminal');
      },
    });
    const { status } = await agent.run('Pay them.');
    expect([status, paid]).toEqual(['completed', []]);
  });

  test('may leave it to others', async () => {
    const { agent } = payingAgent({ onPending: async () => undefined });
    expect((await agent.run('Pay them.')).status).toBe('suspended');
  });
});

test('a decision that comes too late finds the calls denied, and the run goes on to its end', async () => {
  const { agent, paid } = payingAgent({}, 100);
  const { runId } = await agent.run('Pay them.');
  const [item] = agent.state(runId).record.pending;
  await until('the time is over', async () => Date.parse(item?.expiresAt ?? '') < Date.now());
  const { status } = await agent.resume(runId, { approvals: [{ toolCallId: 'a', granted: true }] }).result;
  expect([status, paid]).toEqual(['completed', []]);
});
