import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import type { RunOutcomeView } from '../../../src/shared/contract/run.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import type { AgentStream } from '../../../src/worker/local/agent-handle.ts';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';

const usage = { input: 1_000, output: 100, cached: 0, cacheWrite: 0, total: 1_100 };
const supportModel = 'gpt-5.2-mini';
const billingModel = 'gpt-5.2';

type Answer = { readonly text: string } | { readonly call: string; readonly args: object; readonly times?: number };

/** A model that writes what `answer` makes of each request, or nothing until it is stopped. */
function modelThat(
  answer: (request: LlmRequest) => Answer | 'hang',
): LlmProvider & { readonly requests: LlmRequest[] } {
  const requests: LlmRequest[] = [];
  return {
    id: 'openai',
    requests,
    capabilities: { tools: true, reasoning: false },
    async generate(request, _onPart, signal) {
      requests.push(request);
      const answered = answer(request);
      if (answered === 'hang')
        return await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      const parts =
        'text' in answered
          ? [{ type: 'text', text: answered.text } as const]
          : Array.from(
              { length: answered.times ?? 1 },
              (_, i) =>
                ({
                  type: 'tool_call',
                  id: i === 0 ? 'c' : `c${i}`,
                  name: answered.call,
                  args: JSON.stringify(answered.args),
                }) as const,
            );
      const finishReason = 'text' in answered ? 'stop' : 'tool_use';
      return { message: { role: 'assistant', parts }, usage, finishReason, incompleteToolCalls: [] };
    },
  };
}

const lastOf = ({ messages }: LlmRequest) => messages.at(-1);

/** The support agent asks for a thing first, and then reports the result. */
const supportCalls =
  (call: string, args: object, fromBilling: Answer | 'hang') =>
  (request: LlmRequest): Answer | 'hang' => {
    if (request.model === billingModel) return fromBilling;
    const last = lastOf(request);
    return last?.role === 'tool' ? { text: `billing: ${last.content}` } : { call, args };
  };

const billing = defineAgent({ id: 'billing', model: billingModel, description: 'Knows invoices.' });

function support(more: Partial<Parameters<typeof defineAgent>[0]>, answer: (request: LlmRequest) => Answer | 'hang') {
  const provider = modelThat(answer);
  const definition = defineAgent({ id: 'support', model: supportModel, ...more });
  return { provider, agent: createAgentWith(definition, { agents: [billing], provider, env: {} }) };
}

async function read(stream: AgentStream): Promise<{ events: RunEvent[]; view: RunOutcomeView }> {
  const events: RunEvent[] = [];
  for await (const event of stream) events.push(event);
  return { events, view: await stream.result };
}

/** The events of children in the stream. */
function ofChildren(events: readonly RunEvent[]): RunEvent[] {
  return events.flatMap((event) => (event.type === 'subagent.event' ? [event.event as RunEvent] : []));
}

const question = { agent: 'billing', message: 'Is invoice 7 paid?' };

describe('agents of one process', () => {
  test('one asks another, pays for it, and shows what it did', async () => {
    const { agent, provider } = support(
      { subagents: ['billing'] },
      supportCalls('ask_agent', question, { text: 'paid' }),
    );
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    expect(view).toMatchObject({ status: 'completed', text: 'billing: paid', steps: 2 });
    const [asked] = provider.requests.filter(({ model }) => model === billingModel);
    expect(asked?.messages.at(-1)).toEqual({ role: 'user', content: 'Is invoice 7 paid?' });

    const childEvents = ofChildren(events);
    expect(childEvents.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['run.started', 'step.end', 'run.completed']),
    );
    expect(childEvents.map(({ type }) => type)).not.toContain('text.delta');
    expect(new Set(childEvents.map(({ agentId }) => agentId))).toEqual(new Set(['billing']));
    const end = childEvents.find((event) => event.type === 'run.completed');
    expect(end?.costMicrocents).toBeGreaterThan(0);
    const own = events.flatMap((event) => (event.type === 'cost.updated' ? [event.cumulativeCostMicrocents] : []));
    expect(Math.max(...own)).toBeLessThanOrEqual(view.costMicrocents);
    expect(view.usage).toMatchObject({ input: 3_000, output: 300, total: 3_300 });
    const byModel = Object.entries(view.usage?.byModel ?? {}).map(([model, { total }]) => [model, total]);
    expect(Object.fromEntries(byModel)).toEqual({ [supportModel]: 2_200, [billingModel]: 1_100 });
  });

  test('the cost of the one that asked is the sum of both', async () => {
    const alone = support({}, () => ({ text: 'alone' }));
    const { costMicrocents: once } = await alone.agent.run('Hello');
    const { agent } = support({ subagents: ['billing'] }, supportCalls('ask_agent', question, { text: 'paid' }));
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    const end = ofChildren(events).find((event) => event.type === 'run.completed');
    expect(view.costMicrocents).toBe(2 * once + (end?.costMicrocents ?? 0));
  });

  test.for([
    [{}, 4],
    [{ limits: { subagentFanoutPerStep: 2 } }, 2],
  ] as const)(
    'one step with %o asks %i others, and the model sees that the rest are refused',
    async ([more, allowed]) => {
      const { agent, provider } = support({ ...more, subagents: ['billing'] }, (request) => {
        if (request.model === billingModel) return { text: 'paid' };
        return lastOf(request)?.role === 'tool' ? { text: 'done' } : { call: 'ask_agent', args: question, times: 6 };
      });
      const { events, view } = await read(agent.stream('What about invoice 7?'));
      expect(view).toMatchObject({ status: 'completed', text: 'done' });
      expect(ofChildren(events).filter(({ type }) => type === 'run.started')).toHaveLength(allowed);
      const results = provider.requests
        .at(-1)
        ?.messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
      expect(results?.slice(0, allowed)).toEqual(Array(allowed).fill(expect.stringContaining('paid')));
      const refused = expect.stringContaining(`one step may ask at most ${allowed} agents`);
      expect(results?.slice(allowed)).toEqual(Array(6 - allowed).fill(refused));
    },
  );

  test('one hands the conversation over, and the other answers in its place', async () => {
    const answer = (request: LlmRequest): Answer =>
      request.model === supportModel ? { call: 'transfer_to_billing', args: {} } : { text: 'billing speaking' };
    const { agent } = support({ handoffs: ['billing'] }, answer);
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    expect(view).toMatchObject({ status: 'completed', text: 'billing speaking' });
    expect(events.filter(({ type }) => type === 'handoff')).toMatchObject([
      { fromAgentId: 'support', toAgentId: 'billing' },
    ]);
    expect(events.find(({ type }) => type === 'agent.end')).toMatchObject({ agentId: 'billing' });
    expect(events.filter(({ type }) => type.startsWith('tool.execute'))).toEqual([]);
    expect(new Set(events.map(({ runId }) => runId)).size).toBe(1);
  });

  test.each(['while the other one works', 'before it begins'])('a cancel %s ends both', async (when) => {
    const stop = new AbortController();
    const { agent, provider } = support({ subagents: ['billing'] }, (request) => {
      if (request.model === billingModel) queueMicrotask(() => stop.abort());
      return supportCalls('ask_agent', question, 'hang')(request);
    });
    if (when === 'before it begins') stop.abort();
    const { events, view } = await read(agent.stream('What about invoice 7?', { signal: stop.signal }));
    expect(view).toMatchObject({ status: 'cancelled', text: '' });
    const ends = ofChildren(events).filter(({ type }) => type === 'run.cancelled');
    expect(ends).toHaveLength(when === 'before it begins' ? 0 : 1);
    expect(provider.requests).toHaveLength(when === 'before it begins' ? 0 : 2);
  });
});

describe('a thread of one process', () => {
  const echo = (request: LlmRequest): Answer => {
    const last = lastOf(request);
    return { text: last?.role === 'user' ? `read ${last.content}` : '' };
  };

  test('lets a run see the messages of the ones before', async () => {
    const { agent, provider } = support({}, echo);
    await agent.run('one', { thread: 'a' });
    await agent.run('elsewhere', { thread: 'b' });
    await agent.run('nowhere');
    expect(await agent.run('two', { thread: 'a' })).toMatchObject({ status: 'completed', text: 'read two' });
    const { messages = [] } = provider.requests.at(-1) ?? {};
    expect(messages.filter(({ role }) => role !== 'system')).toMatchObject([
      { role: 'user', content: 'one' },
      { role: 'assistant', parts: [{ type: 'text', text: 'read one' }] },
      { role: 'user', content: 'two' },
    ]);
    for (const request of provider.requests.slice(1, 3))
      expect(request.messages.filter(({ role }) => role !== 'system')).toHaveLength(1);
  });

  test('waits for a run that waits for people in it', async () => {
    const pay = defineTool({
      name: 'pay',
      description: 'Pays.',
      inputSchema: z.object({}),
      needsApproval: true,
      execute: () => 'paid',
    });
    const { agent } = support({ tools: [pay] }, (request) => {
      const last = lastOf(request);
      return last?.role === 'user' && last.content === 'pay' ? { call: 'pay', args: {} } : { text: 'fine' };
    });
    const { runId, status } = await agent.run('pay', { thread: 'a' });
    expect(status).toBe('suspended');
    await expect(agent.run('more', { thread: 'a' })).rejects.toMatchObject({ code: 'thread_suspended' });
    expect((await agent.run('more', { thread: 'b' })).text).toBe('fine');
    expect(() => agent.state(runId)).toThrow(expect.objectContaining({ code: 'validation' }));
    await agent.resume(runId, { approvals: [{ toolCallId: 'c', granted: true }] }).result;
    expect((await agent.run('more', { thread: 'a' })).text).toBe('fine');
  });
});
