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
const deskModel = 'gpt-5.2-mini';
const billingModel = 'gpt-5.2';

type Answer = { readonly text: string } | { readonly call: string; readonly args: object; readonly times?: number };

/** A model that says what `answer` makes of each request, or nothing until it is stopped. */
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
      const said = answer(request);
      if (said === 'hang')
        return await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      const parts =
        'text' in said
          ? [{ type: 'text', text: said.text } as const]
          : Array.from(
              { length: said.times ?? 1 },
              (_, i) =>
                ({
                  type: 'tool_call',
                  id: i === 0 ? 'c' : `c${i}`,
                  name: said.call,
                  args: JSON.stringify(said.args),
                }) as const,
            );
      const finishReason = 'text' in said ? 'stop' : 'tool_use';
      return { message: { role: 'assistant', parts }, usage, finishReason, incompleteToolCalls: [] };
    },
  };
}

const lastOf = ({ messages }: LlmRequest) => messages.at(-1);

/** The desk asks for a thing first, and then says what came of it. */
const deskCalls =
  (call: string, args: object, below: Answer | 'hang') =>
  (request: LlmRequest): Answer | 'hang' => {
    if (request.model === billingModel) return below;
    const last = lastOf(request);
    return last?.role === 'tool' ? { text: `billing says: ${last.content}` } : { call, args };
  };

const billing = defineAgent({ id: 'billing', model: billingModel, description: 'Knows invoices.' });

function desk(more: Partial<Parameters<typeof defineAgent>[0]>, answer: (request: LlmRequest) => Answer | 'hang') {
  const provider = modelThat(answer);
  const definition = defineAgent({ id: 'desk', model: deskModel, ...more });
  return { provider, agent: createAgentWith(definition, { agents: [billing], provider, env: {} }) };
}

async function read(stream: AgentStream): Promise<{ events: RunEvent[]; view: RunOutcomeView }> {
  const events: RunEvent[] = [];
  for await (const event of stream) events.push(event);
  return { events, view: await stream.result };
}

/** What the stream says of runs below. */
function below(events: readonly RunEvent[]): RunEvent[] {
  return events.flatMap((event) => (event.type === 'subagent.event' ? [event.event as RunEvent] : []));
}

const question = { agent: 'billing', message: 'Is invoice 7 paid?' };

describe('agents of one process', () => {
  test('one asks another, pays for it, and shows what it did', async () => {
    const { agent, provider } = desk({ subagents: ['billing'] }, deskCalls('ask_agent', question, { text: 'paid' }));
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    expect(view).toMatchObject({ status: 'completed', text: 'billing says: paid', steps: 2 });
    const [asked] = provider.requests.filter(({ model }) => model === billingModel);
    expect(asked?.messages.at(-1)).toEqual({ role: 'user', content: 'Is invoice 7 paid?' });

    const told = below(events);
    expect(told.map(({ type }) => type)).toEqual(expect.arrayContaining(['run.started', 'step.end', 'run.completed']));
    expect(told.map(({ type }) => type)).not.toContain('text.delta');
    expect(new Set(told.map(({ agentId }) => agentId))).toEqual(new Set(['billing']));
    const end = told.find((event) => event.type === 'run.completed');
    expect(end?.costMicrocents).toBeGreaterThan(0);
    const own = events.flatMap((event) => (event.type === 'cost.updated' ? [event.cumulativeCostMicrocents] : []));
    expect(Math.max(...own)).toBeLessThanOrEqual(view.costMicrocents);
    expect(view.usage).toMatchObject({ input: 3_000, output: 300, total: 3_300 });
    const byModel = Object.entries(view.usage?.byModel ?? {}).map(([model, { total }]) => [model, total]);
    expect(Object.fromEntries(byModel)).toEqual({ [deskModel]: 2_200, [billingModel]: 1_100 });
  });

  test('the cost of the one that asked is the sum of both', async () => {
    const alone = desk({}, () => ({ text: 'alone' }));
    const { costMicrocents: once } = await alone.agent.run('Hello');
    const { agent } = desk({ subagents: ['billing'] }, deskCalls('ask_agent', question, { text: 'paid' }));
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    const end = below(events).find((event) => event.type === 'run.completed');
    expect(view.costMicrocents).toBe(2 * once + (end?.costMicrocents ?? 0));
  });

  test.for([
    [{}, 4],
    [{ limits: { subagentFanoutPerStep: 2 } }, 2],
  ] as const)('one step with %o asks %i others, and the model is told about the rest', async ([more, allowed]) => {
    const { agent, provider } = desk({ ...more, subagents: ['billing'] }, (request) => {
      if (request.model === billingModel) return { text: 'paid' };
      return lastOf(request)?.role === 'tool' ? { text: 'done' } : { call: 'ask_agent', args: question, times: 6 };
    });
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    expect(view).toMatchObject({ status: 'completed', text: 'done' });
    expect(below(events).filter(({ type }) => type === 'run.started')).toHaveLength(allowed);
    const told = provider.requests
      .at(-1)
      ?.messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
    expect(told?.slice(0, allowed)).toEqual(Array(allowed).fill(expect.stringContaining('paid')));
    const refused = expect.stringContaining(`one step may ask at most ${allowed} agents`);
    expect(told?.slice(allowed)).toEqual(Array(6 - allowed).fill(refused));
  });

  test('one hands the conversation over, and the other answers in its place', async () => {
    const answer = (request: LlmRequest): Answer =>
      request.model === deskModel ? { call: 'transfer_to_billing', args: {} } : { text: 'billing speaking' };
    const { agent } = desk({ handoffs: ['billing'] }, answer);
    const { events, view } = await read(agent.stream('What about invoice 7?'));
    expect(view).toMatchObject({ status: 'completed', text: 'billing speaking' });
    expect(events.filter(({ type }) => type === 'handoff')).toMatchObject([
      { fromAgentId: 'desk', toAgentId: 'billing' },
    ]);
    expect(events.find(({ type }) => type === 'agent.end')).toMatchObject({ agentId: 'billing' });
    expect(new Set(events.map(({ runId }) => runId)).size).toBe(1);
  });

  test.each(['while the other one works', 'before it begins'])('a cancel %s ends both', async (when) => {
    const stop = new AbortController();
    const { agent, provider } = desk({ subagents: ['billing'] }, (request) => {
      if (request.model === billingModel) queueMicrotask(() => stop.abort());
      return deskCalls('ask_agent', question, 'hang')(request);
    });
    if (when === 'before it begins') stop.abort();
    const { events, view } = await read(agent.stream('What about invoice 7?', { signal: stop.signal }));
    expect(view).toMatchObject({ status: 'cancelled', text: '' });
    const ends = below(events).filter(({ type }) => type === 'run.cancelled');
    expect(ends).toHaveLength(when === 'before it begins' ? 0 : 1);
    expect(provider.requests).toHaveLength(when === 'before it begins' ? 0 : 2);
  });
});

describe('a thread of one process', () => {
  const echo = (request: LlmRequest): Answer => {
    const last = lastOf(request);
    return { text: last?.role === 'user' ? `heard ${last.content}` : '' };
  };

  test('lets a run see what was said in the ones before', async () => {
    const { agent, provider } = desk({}, echo);
    await agent.run('one', { thread: 'a' });
    await agent.run('elsewhere', { thread: 'b' });
    await agent.run('nowhere');
    expect(await agent.run('two', { thread: 'a' })).toMatchObject({ status: 'completed', text: 'heard two' });
    const { messages = [] } = provider.requests.at(-1) ?? {};
    expect(messages.filter(({ role }) => role !== 'system')).toMatchObject([
      { role: 'user', content: 'one' },
      { role: 'assistant', parts: [{ type: 'text', text: 'heard one' }] },
      { role: 'user', content: 'two' },
    ]);
    for (const request of provider.requests.slice(1, 3))
      expect(request.messages.filter(({ role }) => role !== 'system')).toHaveLength(1);
  });

  test('waits for whoever waits for people in it', async () => {
    const pay = defineTool({
      name: 'pay',
      description: 'Pays.',
      inputSchema: z.object({}),
      needsApproval: true,
      execute: () => 'paid',
    });
    const { agent } = desk({ tools: [pay] }, (request) => {
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
