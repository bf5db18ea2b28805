import { expect, test } from 'vitest';
import { z } from 'zod';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { makeTurn } from './world.ts';

const signature = 'SIGNATURE-5f3a';
const usage = { input: 1, output: 1, cached: 0, cacheWrite: 0, total: 2 };
const look = defineTool({
  name: 'look',
  description: 'Looks.',
  inputSchema: z.object({}),
  effect: 'read',
  execute: () => 'blue',
});

/** Thinks, signs what it thought, calls a tool, and then answers. */
function thinker(): LlmProvider {
  return {
    id: 'thinker',
    capabilities: { tools: true, reasoning: true },
    async generate({ messages }: LlmRequest, onPart) {
      onPart({ type: 'reasoning', delta: 'I should look.' });
      const asked = messages.some(({ role }) => role === 'assistant');
      if (asked) onPart({ type: 'text', delta: 'blue' });
      const reasoning = {
        type: 'reasoning',
        text: 'I should look.',
        provider: 'thinker',
        meta: { signature },
      } as const;
      return {
        message: {
          role: 'assistant',
          parts: asked
            ? [reasoning, { type: 'text', text: 'blue' }]
            : [reasoning, { type: 'tool_call', id: 'c1', name: 'look', args: '{}' }],
        },
        finishReason: asked ? 'stop' : 'tool_use',
        incompleteToolCalls: [],
        usage,
      };
    },
  };
}

async function secondRequest(reasoningRetention?: 'keep' | 'strip') {
  const turn = makeTurn({
    providers: [thinker()],
    tools: [look],
    ...(reasoningRetention && { spec: { reasoningRetention } }),
  });
  expect(await turn.run()).toMatchObject({ status: 'completed', text: 'blue' });
  expect(turn.requests).toHaveLength(2);
  return { turn, messages: turn.requests[1]?.messages ?? [] };
}

test.each([undefined, 'keep' as const])('with %s reasoning goes back with its signature', async (retention) => {
  const { messages } = await secondRequest(retention);
  expect(messages.find(({ role }) => role === 'assistant')).toMatchObject({
    parts: [
      { type: 'reasoning', meta: { signature } },
      { type: 'tool_call', name: 'look' },
    ],
  });
});

test('with strip none goes back, and calls and results stay together', async () => {
  const { messages } = await secondRequest('strip');
  expect(JSON.stringify(messages)).not.toContain('I should look');
  expect(JSON.stringify(messages)).not.toContain(signature);
  expect(messages.slice(-2)).toMatchObject([
    { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1' }] },
    { role: 'tool', toolCallId: 'c1', content: 'blue' },
  ]);
});

test.each(['keep', 'strip'] as const)('an agent says %s', async (reasoningRetention) => {
  const requests: LlmRequest[] = [];
  const inner = thinker();
  const provider: LlmProvider = {
    ...inner,
    generate(request, ...call) {
      requests.push(request);
      return inner.generate(request, ...call);
    },
  };
  const agent = defineAgent({ id: 'x', model: 'm', tools: [look], reasoningRetention });
  expect(await createAgentWith(agent, { provider, env: {} }).run('x')).toMatchObject({ status: 'completed' });
  expect(JSON.stringify(requests[1]?.messages).includes(signature)).toBe(reasoningRetention === 'keep');
});

test('what was thought is shown, what proves it never is', async () => {
  const { turn } = await secondRequest();
  expect(turn.eventsOf('reasoning.delta')).toHaveLength(2);
  expect(JSON.stringify(turn.events)).not.toContain(signature);
});
