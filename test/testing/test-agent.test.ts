import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { defineAgent, defineTool, ToolError, type AgentSource } from '../../src/worker/index.ts';
import {
  assertCalls,
  assertCompleted,
  assertFailed,
  assertWaits,
  byAgent,
  byModel,
  calls,
  fails,
  FakeClock,
  hangs,
  scriptedModel,
  testAgent,
  type TestAgentOptions,
} from '../../src/testing/index.ts';

const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  outputSchema: z.object({ state: z.string() }),
  timeoutMs: 5_000,
  effect: 'read',
  execute: () => ({ state: 'known to the real system' }),
});
const refund = defineTool({
  name: 'refund',
  description: 'Pays money back.',
  inputSchema: z.object({ order: z.string(), amount: z.number() }),
  needsApproval: true,
  execute: ({ amount }) => `paid ${amount}`,
});

function support(source: Partial<AgentSource> = {}) {
  return defineAgent({ id: 'support', model: 'gpt-5.2-mini', tools: [lookupOrder, refund], ...source });
}

const asksForRefund = () => [calls('refund', { order: '7', amount: 20 }), 'That is done.'];

function run(model: TestAgentOptions['model'], options: Partial<TestAgentOptions> = {}, agent = support()) {
  return testAgent(agent, { model, ...options }).run('Help me.');
}

describe('a run', () => {
  test('is the real one, with its text, cost, steps, calls, events and what the model was asked', async () => {
    const usage = { input: 1_000, output: 100, cached: 0, cacheWrite: 0, total: 1_100 };
    const done = await run([
      { ...calls('lookup_order', { order: '7' }), usage },
      { text: 'It is known.', usage },
    ]);
    // 2 × (1,000 tokens at 0.25 USD and 100 at 2 USD for a million).
    expect(done).toMatchObject({ status: 'completed', text: 'It is known.', steps: 2, costMicrocents: 90_000 });
    expect(done.calls).toMatchObject([
      {
        name: 'lookup_order',
        args: { order: '7' },
        status: 'done',
        result: { state: 'known to the real system' },
        agent: 'support',
        runId: done.runId,
      },
    ]);
    expect(done.events[0]?.type).toBe('run.queued');
    expect(done.events.at(-1)?.type).toBe('run.completed');
    expect(done.requests).toHaveLength(2);
    expect(done.requests[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      content: expect.stringContaining('known'),
    });
    expect(done.pending).toEqual([]);
  });

  test('is the same each time, ids and times included', async () => {
    const once = async () => (await run([calls('lookup_order', { order: '7' }), 'Done.'])).events;
    expect(await once()).toEqual(await once());
  });

  test('goes on in its thread, and has only its own calls and events', async () => {
    const agent = testAgent(support(), {
      model: [calls('lookup_order', { order: '7' }), 'Known.', 'You asked for 7.'],
    });
    const first = await agent.run('Where is order 7?', { thread: 't' });
    const second = await agent.run('Which one was it?', { thread: 't' });
    expect(second.requests[0]?.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'user',
    ]);
    expect([first.calls.length, second.calls.length, second.requests.length]).toEqual([1, 0, 1]);
    expect(new Set(second.events.map(({ runId }) => runId))).toEqual(new Set([second.runId]));
  });

  test('has the answer of an agent with a schema as a value', async () => {
    const agent = support({ outputSchema: z.object({ total: z.number() }), tools: [] });
    const done = await run([{ text: '{"total": 3}' }], {}, agent);
    expect(done.output).toEqual({ total: 3 });
  });

  test('takes settings from the test and none from the process', async () => {
    process.env['MAX_STEPS_CAP'] = '1';
    try {
      const looks = () => Array.from({ length: 3 }, () => calls('lookup_order', { order: '7' }));
      assertCompleted(await run([...looks(), 'Done.']));
      const capped = await run([...looks(), 'Done.'], { env: { MAX_STEPS_CAP: '2' } });
      expect(capped.steps).toBe(3);
    } finally {
      delete process.env['MAX_STEPS_CAP'];
    }
  });

  test('has what runs that work for it did, each call with its agent', async () => {
    const billing = defineAgent({ id: 'billing', model: 'gpt-5.2-mini', description: 'Pays.', tools: [refund] });
    const model = byAgent({
      support: [calls('ask_billing', { input: 'Refund order 7.' }), 'Billing did it.'],
      billing: asksForRefund(),
    });
    const agent = support({ tools: [lookupOrder, billing.toTool({ name: 'ask_billing' })] });
    const done = await run(scriptedModel(model), { people: { refund: { granted: true } } }, agent);
    assertCompleted(done, 'Billing did it.');
    expect(done.calls.map(({ name, agent: by, status }) => [name, by, status])).toEqual([
      ['ask_billing', 'support', 'done'],
      ['refund', 'billing', 'done'],
    ]);
    expect(done.requests).toHaveLength(4);
    expect(new Set(done.events.map(({ runId }) => runId))).toEqual(new Set([done.runId]));
  });
});

describe('a stand-in', () => {
  test('runs in place of the tool, after its checks and with its context', async () => {
    const keys: string[] = [];
    const tools: TestAgentOptions['tools'] = {
      lookup_order: ({ order }: { order: string }, { idempotencyKey }) => {
        keys.push(idempotencyKey);
        return { state: `order ${order} is here` };
      },
    };
    const model = [calls('lookup_order', { order: 7 }), calls('lookup_order', { order: '7' }), 'Done.'];
    const done = await run(model, { tools });
    expect(done.calls).toMatchObject([
      { status: 'refused', args: { order: 7 }, error: { kind: 'invalid_input' } },
      { status: 'done', args: { order: '7' }, result: { state: 'order 7 is here' } },
    ]);
    expect(keys).toHaveLength(1);
  });

  test('fails as the tool does, and its answer must be what the tool promises', async () => {
    const model = () => [calls('lookup_order', { order: '7' }), 'Sorry.'];
    const gone = () => {
      throw new ToolError('execution_failed', 'the system is down');
    };
    const thrown = await run(model(), { tools: { lookup_order: gone } });
    expect(thrown.calls[0]).toMatchObject({ status: 'failed', error: { kind: 'execution_failed' } });
    const wrong = await run(model(), { tools: { lookup_order: () => ({ status: 'shipped' }) } });
    expect(wrong.calls[0]).toMatchObject({ status: 'failed', error: { kind: 'invalid_output' } });
  });

  test('that hangs is ended by the time limit of the tool, at once', async () => {
    const clock = new FakeClock({ skipWaits: true });
    const model = [calls('lookup_order', { order: '7' }), 'It takes too long.'];
    const done = await run(model, { tools: { lookup_order: 'hangs' }, clock });
    assertCompleted(done);
    expect(done.calls[0]).toMatchObject({ status: 'failed', error: { kind: 'timeout' } });
    expect(clock.elapsedMs).toBeGreaterThanOrEqual(5_000);
    expect(clock.elapsedMs).toBeLessThan(10_000);
  });

  test('of a built-in tool keeps the tool from reaching out', async () => {
    const agent = support({ tools: ['http_request'] });
    const model = [calls('http_request', { url: 'https://example.com/' }), 'Read.'];
    const done = await run(model, { tools: { http_request: () => 'a page' } }, agent);
    expect(done.calls).toMatchObject([{ status: 'done', result: 'a page' }]);
  });

  test('of an MCP server offers its tools, with the trust that results of servers have', async () => {
    const offered = { description: 'Finds.', inputSchema: z.object({}) };
    const search = defineTool({ ...offered, name: 'search', execute: () => 'found it' });
    const hidden = defineTool({ ...offered, name: 'hidden', execute: () => 'no' });
    const agent = support({
      tools: ['mcp:shop/search'],
      mcpServers: { shop: { command: 'no-such-program' } },
    });
    const done = await run([calls('search'), 'Found.'], { servers: { shop: [search, hidden] } }, agent);
    expect(done.requests[0]?.tools?.map(({ name }) => name)).toEqual(['search']);
    expect(done.calls).toMatchObject([{ name: 'search', status: 'done', result: 'found it' }]);
    expect(done.requests[1]?.messages.at(-1)).toMatchObject({ trust: 'mcp-derived' });
  });

  test.each<[what: string, options: Partial<TestAgentOptions>, agent: AgentSource | undefined, message: string]>([
    [
      'a tool that no agent has',
      { tools: { lookup: () => 1 } },
      undefined,
      'tool lookup; known are lookup_order, refund',
    ],
    ['a server that no agent uses', { servers: { shop: [] } }, undefined, 'MCP server shop; known are none'],
    [
      'a question',
      { tools: { ask_user: () => 1 } },
      { id: 'support', model: 'm', tools: ['ask_user'] },
      'ask_user has no code to stand in for: answer it with `people`',
    ],
  ])('of %s is refused', (_, options, agent, message) => {
    expect(() => testAgent(agent ? defineAgent(agent) : support(), { model: [], ...options })).toThrow(message);
  });
});

describe('people', () => {
  test('grant and deny as the test says', async () => {
    const granted = await run(asksForRefund(), { people: { refund: { granted: true } } });
    expect(granted.calls).toMatchObject([{ status: 'done', result: 'paid 20' }]);
    const denied = await run(asksForRefund(), { people: { refund: { granted: false, reason: 'too much' } } });
    expect(denied.calls).toMatchObject([
      { status: 'refused', args: { order: '7', amount: 20 }, error: { kind: 'approval_denied' } },
    ]);
    expect(denied.calls[0]?.error?.message).toContain('too much');
  });

  test('decide by the arguments, and change them', async () => {
    const people: TestAgentOptions['people'] = {
      refund: ({ args }) => ({ granted: true, updatedArgs: { ...args, amount: Number(args?.['amount']) / 2 } }),
    };
    const done = await run(asksForRefund(), { people });
    expect(done.calls).toMatchObject([{ status: 'done', args: { amount: 10 }, result: 'paid 10' }]);
  });

  test('who are not named leave the run waiting, and decide later', async () => {
    const waiting = await run(asksForRefund());
    assertWaits(waiting, 'refund');
    expect(waiting.calls).toMatchObject([{ status: 'waiting', args: { amount: 20 } }]);
    await expect(waiting.approve('lookup_order')).rejects.toThrow(
      "does not wait for a person's word about lookup_order; it waits for refund",
    );
    const done = await waiting.approve('refund', { order: '7', amount: 5 });
    assertCompleted(done, 'That is done.');
    expect(done.calls).toMatchObject([{ status: 'done', result: 'paid 5' }]);
    await expect(done.deny()).rejects.toThrow('does not wait for a person; it waits for nothing');
    const other = await (await run(asksForRefund())).deny('no');
    expect(other.calls[0]?.status).toBe('refused');
  });

  test('answer questions', async () => {
    const agent = support({ tools: ['ask_user'] });
    const model = () => [calls('ask_user', { question: 'Which order?' }), 'Thank you.'];
    const asked = await run(model(), { people: { ask_user: { answer: 'Number 7.' } } }, agent);
    expect(asked.requests[1]?.messages.at(-1)).toMatchObject({ content: expect.stringContaining('Number 7.') });
    const waiting = await run(model(), {}, agent);
    assertCompleted(await waiting.answer('Number 8.'), 'Thank you.');
  });

  test('let the time of an approval run out, without waiting for it', async () => {
    const agent = () => support({ approvals: { ttlMs: 86_400_000 } });
    const clock = new FakeClock({ skipWaits: true });
    const done = await run(asksForRefund(), { people: { refund: 'expires' }, clock }, agent());
    assertCompleted(done, 'That is done.');
    expect(done.calls).toMatchObject([{ status: 'refused' }]);
    expect(done.events.find(({ type }) => type === 'tool.approval.denied')).toMatchObject({ reason: 'expired' });
    expect(clock.elapsedMs).toBeGreaterThanOrEqual(86_400_000);
    const later = await (await run(asksForRefund(), {}, agent())).expire();
    expect(later.calls).toMatchObject([{ status: 'refused' }]);
  });
});

describe('time', () => {
  test('retries wait as long as the provider asks, in no time', async () => {
    const clock = new FakeClock({ skipWaits: true });
    const done = await run([fails('rate_limit', { retryAfterMs: 20_000 }), fails('overloaded'), 'Hi.'], { clock });
    assertCompleted(done, 'Hi.');
    expect(clock.elapsedMs).toBe(20_000 + 500);
    expect(done.events.filter(({ type }) => type === 'llm.call').map(({ timestamp }) => timestamp)).toEqual([
      '2026-01-01T00:00:00.000Z',
      '2026-01-01T00:00:20.000Z',
      '2026-01-01T00:00:20.500Z',
    ]);
  });

  test('a model that hangs is ended by the wall time of the run', async () => {
    assertFailed(await run([hangs('Well')], {}, support({ limits: { wallTimeMs: 60_000 } })), 'run_timeout');
  });

  test('a deadline ends a run whose model takes too long', async () => {
    const agent = support({ limits: { deadlineMs: 10_000 } });
    assertFailed(await run([{ text: 'Late.', afterMs: 11_000 }], {}, agent), 'deadline_exceeded');
    assertCompleted(await run([{ text: 'In time.', afterMs: 9_000 }], {}, agent));
  });

  test('a clock that is moved by hand stops a run in the middle', async () => {
    const clock = new FakeClock();
    const running = run([fails('overloaded', { retryAfterMs: 1_000 }), 'Hi.'], { clock });
    await clock.advance(500);
    expect(clock.sleeping).toBeGreaterThan(0);
    await clock.advance(1_500);
    assertCompleted(await running);
  });
});

test('a model that is too busy is replaced by the next one of the agent', async () => {
  const agent = support({ fallbackModels: ['gpt-5.2-nano'], retry: { max: 1 } });
  const model = scriptedModel(
    byModel({ 'gpt-5.2-mini': [fails('overloaded')], 'gpt-5.2-nano': ['From the small one.'] }),
  );
  const done = await run(model, {}, agent);
  assertCompleted(done, 'From the small one.');
  expect(model.left).toBe(0);
});

test('rules of the agent hold in a test', async () => {
  const policies = [{ ruleId: 'no-refunds', action: 'deny' as const, condition: { pattern: 'refund' } }];
  const done = await run(asksForRefund(), { people: { refund: { granted: true } } }, support({ policies }));
  assertCalls(done, []);
  assertCalls(done, [{ name: 'refund', status: 'refused' }]);
});

test('calls of several steps that have one id have their own results, and those that never ran are refused', async () => {
  const look = (order: unknown) => ({ toolCalls: [{ id: 'call_0', name: 'lookup_order', args: { order } }] });
  const { calls: seen } = await run([look(5), look('one'), look('two'), 'There.'], {
    tools: { lookup_order: ({ order }) => ({ state: `${String(order)} is there` }) },
  });
  expect(seen.map(({ stepNumber, status, result }) => [stepNumber, status, result])).toEqual([
    [1, 'refused', undefined],
    [2, 'done', { state: 'one is there' }],
    [3, 'done', { state: 'two is there' }],
  ]);
});
