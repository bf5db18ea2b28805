import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import type { AgentToolOptions } from '../../../src/worker/agents/agent-tool.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { filters } from '../../../src/shared/contract/handoff/handoff-filters.ts';

const usage = { input: 10, output: 2, cached: 0, cacheWrite: 0, total: 12 };

/** The agent `boss` calls its tool once; the agent below calls `peek` once, unless it fails. */
function models(failing = false): LlmProvider & { readonly requests: LlmRequest[] } {
  const requests: LlmRequest[] = [];
  return {
    id: 'model',
    requests,
    capabilities: { tools: true, reasoning: false },
    async generate(request) {
      requests.push(request);
      const { messages, tools = [] } = request;
      if (failing && request.model === 'below') throw new TypeError('it broke');
      const answered = messages.findLastIndex(({ role }) => role === 'user') < messages.length - 1;
      const [tool] = tools;
      const result = messages.at(-1);
      const parts =
        tool && !answered
          ? [{ type: 'tool_call' as const, id: 'c', name: tool.name, args: '{"input":"the question"}' }]
          : [{ type: 'text' as const, text: result?.role === 'tool' ? `said: ${result.content}` : 'plain' }];
      const message = { role: 'assistant' as const, parts };
      return { message, usage, finishReason: answered || !tool ? 'stop' : 'tool_use', incompleteToolCalls: [] };
    },
  };
}

const peek = defineTool({
  name: 'peek',
  description: 'Looks at the secret.',
  inputSchema: z.object({ input: z.string() }),
  effect: 'read',
  secretsAllowed: ['KEY'],
  execute: (_, { secrets }) => `length ${secrets.get('KEY').length}`,
});

function family(options: AgentToolOptions, { tools = [peek], failing = false } = {}) {
  const below = defineAgent({ id: 'below', model: 'below', description: 'Looks.', tools });
  const boss = defineAgent({ id: 'boss', model: 'boss', instructions: 'You decide.', tools: [below.toTool(options)] });
  const provider = models(failing);
  const agent = createAgentWith(boss, { provider, env: { MILLRACE_SECRET_KEY: 'abc' } });
  return { agent, provider, of: (model: string) => provider.requests.filter((request) => request.model === model) };
}

describe('an agent as a tool', () => {
  test('has a name of its own, and its run sees the input and nothing else', async () => {
    const { agent, of } = family({}, { tools: [] });
    const view = await agent.run('Please find out.');
    expect(view).toMatchObject({ status: 'completed', text: 'said: plain' });
    expect(of('boss')[0]?.tools?.map(({ name, description }) => [name, description])).toEqual([
      ['subagent_below', 'Looks.'],
    ]);
    expect(of('below').map(({ messages }) => messages)).toEqual([[{ role: 'user', content: 'the question' }]]);
    expect(view.usage).toMatchObject({ total: 36, byModel: { boss: { total: 24 }, below: { total: 12 } } });
  });

  test('gets of the conversation what the filter lets through, and no open call', async () => {
    const { of, agent } = family({ inputFilter: filters.full() }, { tools: [] });
    await agent.run('Please find out.');
    expect(of('below')[0]?.messages).toEqual([
      { role: 'user', content: 'Please find out.' },
      { role: 'user', content: 'the question' },
    ]);
  });

  test('that fails is a failed call', async () => {
    const { agent } = family({}, { failing: true });
    const { status, text } = await agent.run('Go.');
    expect(status).toBe('completed');
    expect(text).toContain('the other agent failed');
  });

  const refused = expect.stringContaining('it may not ask for it');
  test.each<[string, AgentToolOptions, unknown]>([
    ['none by default', {}, refused],
    ['those that are listed', { inheritSecrets: ['KEY'] }, 'said: said: length 3'],
    ['none that others list', { inheritSecrets: ['OTHER'] }, refused],
    [
      'those that go along with the call',
      { secretsInheritance: 'forward-explicit', forwardSecrets: (input) => (input === 'the question' ? ['KEY'] : []) },
      'said: said: length 3',
    ],
    ['none without a word', { secretsInheritance: 'forward-explicit', inheritSecrets: ['KEY'] }, refused],
    ['none in isolation', { secretsInheritance: 'isolated', inheritSecrets: ['KEY'] }, refused],
  ])('may use secrets: %s', async (_, options, text) => {
    const { agent } = family(options);
    expect((await agent.run('Go.')).text).toEqual(text);
  });

  test.each([
    ['none', []],
    ['final', ['run.completed']],
    ['all', expect.arrayContaining(['run.started', 'step.start', 'text.complete', 'run.completed'])],
  ] as const)('shows of its events: %s', async (exposeTurns, types) => {
    const { agent } = family({ exposeTurns }, { tools: [] });
    const shown: string[] = [];
    for await (const event of agent.stream('Go.'))
      if (event.type === 'subagent.event') shown.push((event.event as { type: string }).type);
    expect(shown).toEqual(types);
  });
});
