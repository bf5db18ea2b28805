import { setImmediate as tick } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RunError } from '../../../../src/shared/base/errors.ts';
import { ToolError } from '../../../../src/worker/tools/tool-error.ts';
import { graceMs } from '../../../../src/shared/base/deadline.ts';
import { policyRule } from '../../../../src/shared/contract/agent/policy.ts';
import { createPolicy } from '../../../../src/worker/guards/policy.ts';
import { createAskAgentTools } from '../../../../src/worker/tools/builtin/agents.ts';
import { createAskUser } from '../../../../src/worker/tools/builtin/user.ts';
import { calls, makeWorld, tool } from '../world.ts';

test('a call runs with its checked arguments, its key and its context', async () => {
  const world = makeWorld();
  let seen: unknown;
  const look = tool(
    'look',
    (args, { runId, toolCallId, idempotencyKey }) => (seen = { args, runId, toolCallId, idempotencyKey }),
    {
      inputSchema: z.object({ at: z.string(), zoom: z.int().default(2) }),
    },
  );
  expect(await world.run([look], calls({ name: 'look', args: '{"at":"sky"}' }), { step: 4 })).toEqual({ kind: 'done' });
  expect(seen).toEqual({ args: { at: 'sky', zoom: 2 }, runId: 'R', toolCallId: 'call_0', idempotencyKey: 'R:s4:t0' });
});

test('a finished call is emitted and recorded', async () => {
  const world = makeWorld();
  await world.run([tool('look', () => 'blue')], calls({ name: 'look', args: '{"at":"sky","token":"t","apiKey":"k"}' }));
  expect(world.events).toEqual([
    {
      type: 'tool.execute.start',
      toolCallId: 'call_0',
      toolName: 'look',
      args: { at: 'sky', token: 't', apiKey: '[redacted]' },
      summary: 'look({"at":"sky","token":"t","apiKey":"[redacted]"})',
    },
    {
      type: 'tool.execute.end',
      toolCallId: 'call_0',
      toolName: 'look',
      success: true,
      outputSummary: 'blue',
      durationMs: 0,
    },
  ]);
  expect(world.journal).toEqual([
    { v: 1, t: 'tool_result', step: 1, index: 0, toolCallId: 'call_0', toolName: 'look', content: 'blue' },
  ]);
});

test('an unknown tool is a mistake that the model may repair, and the error lists the tools', async () => {
  const world = makeWorld();
  await world.run([tool('look', () => 1)], calls({ name: 'lock', args: '{"secret":1}' }));
  expect(world.result(0)).toMatchObject({ errorKind: 'unknown_tool', correctable: true });
  expect(world.result(0).content).toContain('the tools are look');
  expect(world.eventsOf('tool.execute.start')[0]?.args).toEqual({});
});

test('arguments that are not JSON are checked as none, so the model learns which field is missing', async () => {
  const world = makeWorld();
  const look = tool('look', () => 1, { inputSchema: z.object({ order: z.string() }) });
  await world.run([look], calls({ name: 'look', args: '{bad' }));
  expect(world.result(0)).toMatchObject({ errorKind: 'invalid_input', correctable: true });
  expect(world.result(0).content).toContain('order');
});

test('a long list of mistakes is cut', async () => {
  const world = makeWorld();
  const look = tool('look', () => 1, { inputSchema: z.object({ list: z.array(z.string()) }) });
  await world.run(
    [look],
    calls({ name: 'look', args: JSON.stringify({ list: Array.from({ length: 10_000 }, () => 1) }) }),
  );
  expect(world.result(0).content.length).toBeLessThan(2_500);
  expect(world.result(0).content).toMatch(/Kind: invalid_input$/);
});

test('a check that throws is the fault of the tool and not a mistake of the model', async () => {
  const world = makeWorld();
  const inputSchema = z.looseObject({}).refine(() => {
    throw new Error('sk-hunter2hunter2');
  });
  await world.run([tool('look', () => 1, { inputSchema })], calls('look'));
  expect(world.result(0)).toMatchObject({ errorKind: 'execution_failed' });
  expect(world.result(0).correctable).toBeUndefined();
  expect(world.result(0).content).not.toContain('hunter2');
});

test('the error of a tool that throws goes to the model, scrubbed and with its kind', async () => {
  const world = makeWorld();
  const look = tool('look', () => Promise.reject(new Error('no entry for sk-hunter2hunter2')));
  await world.run([look], calls('look'));
  expect(world.result(0)).toMatchObject({
    errorKind: 'execution_failed',
    content: 'Error of tool look: no entry for [redacted]\nHint: try_alternative\nKind: execution_failed',
  });
  expect(world.eventsOf('tool.execute.error')[0]?.error).toEqual({
    kind: 'execution_failed',
    message: 'no entry for [redacted]',
    hint: 'try_alternative',
  });
});

test('calls run side by side up to the limit', async () => {
  const world = makeWorld();
  let running = 0;
  let most = 0;
  const look = tool('look', async () => {
    most = Math.max(most, ++running);
    await tick();
    running--;
  });
  await world.run([look], calls(...Array.from({ length: 20 }, () => 'look')), { maxParallel: 8 });
  expect(most).toBe(8);
  expect(world.journal).toHaveLength(20);
});

test('sequential calls run first and never beside another call', async () => {
  const world = makeWorld();
  const order: string[] = [];
  const runs = (name: string, executionMode: 'parallel' | 'sequential') =>
    tool(
      name,
      async () => {
        order.push(`+${name}`);
        await tick();
        order.push(`-${name}`);
      },
      { executionMode },
    );
  await world.run([runs('par', 'parallel'), runs('seq', 'sequential')], calls('par', 'seq', 'par', 'seq'));
  expect(order).toEqual(['+seq', '-seq', '+seq', '-seq', '+par', '+par', '-par', '-par']);
});

test('all starts come first, ends come in call order whatever finishes first, results are recorded at once', async () => {
  const world = makeWorld();
  const slow = Promise.withResolvers<string>();
  const fastIsThere = Promise.withResolvers<void>();
  world.onRecord = async (entries) => {
    if (entries.some((entry) => entry.t === 'tool_result' && entry.index === 1)) fastIsThere.resolve();
  };
  const tools = [tool('slow', () => slow.promise), tool('fast', () => 'quick')];
  const end = world.run(tools, calls('slow', 'fast'));
  await fastIsThere.promise;
  expect(world.eventsOf('tool.execute.end')).toEqual([]);
  slow.resolve('late');
  await end;
  expect(world.events.map((event) => [event.type, 'toolName' in event && event.toolName])).toEqual([
    ['tool.execute.start', 'slow'],
    ['tool.execute.start', 'fast'],
    ['tool.execute.end', 'slow'],
    ['tool.execute.end', 'fast'],
  ]);
  expect(world.writes.map((entries) => entries.map((entry) => entry.t === 'tool_result' && entry.index))).toEqual([
    [1],
    [0],
  ]);
});

test('results that are ready together share one write', async () => {
  const world = makeWorld();
  await world.run([tool('look', async () => 'x')], calls('look', 'look', 'look'));
  expect(world.writes).toHaveLength(1);
});

test('one write is under way at a time and gathers what becomes ready meanwhile', async () => {
  const world = makeWorld();
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  let writing = 0;
  world.onRecord = async () => {
    expect(++writing).toBe(1);
    started.resolve();
    await gate.promise;
    writing--;
  };
  const answers = [Promise.resolve(), started.promise, started.promise.then(() => tick())];
  const look = tool('look', async ({ n }) => await answers[n as number]);
  const end = world.run([look], calls(...[0, 1, 2].map((n) => ({ name: 'look', args: `{"n":${n}}` }))));
  await answers[2];
  await tick();
  gate.resolve();
  await end;
  expect(world.writes.map((entries) => entries.length)).toEqual([1, 2]);
});

test('progress and partial results are emitted while the call runs and not after it', async () => {
  const world = makeWorld();
  let late = () => {};
  const look = tool('look', (_args, context) => {
    context.progress({ done: 1 });
    context.partial('half');
    late = () => context.progress('too late');
    return 'all';
  });
  await world.run([look], calls('look'));
  late();
  expect(world.events.map((event) => event.type)).toEqual([
    'tool.execute.start',
    'tool.execute.progress',
    'tool.execute.partial',
    'tool.execute.end',
  ]);
});

test('the intent of calls with a side effect is durable before any of them starts, reads need none', async () => {
  const world = makeWorld();
  const seen: unknown[] = [];
  const tools = [
    tool('pay', () => seen.push(world.journal[0]), { effect: 'once' }),
    tool('put', () => seen.push(world.journal[0]), { effect: 'idempotent' }),
    tool('get', () => 1),
  ];
  await world.run(tools, calls('pay', 'get', 'put', 'none'));
  const intent = { v: 1, t: 'tool_intent', step: 1, indexes: [0, 2], at: expect.any(String) as string };
  expect(seen).toEqual([intent, intent]);
});

test('a call whose intent is recorded already is not recorded again', async () => {
  const world = makeWorld();
  await world.run([tool('pay', () => 1, { effect: 'once' })], calls({ name: 'pay', status: 'tool_intent' }));
  expect(world.journal.map((entry) => entry.t)).toEqual(['tool_result']);
});

test('no tool starts when its intent cannot be recorded', async () => {
  const world = makeWorld();
  let ran = false;
  world.onRecord = () => Promise.reject(new RunError('lock_lost', 'gone'));
  const end = world.run([tool('pay', () => (ran = true), { effect: 'once' })], calls('pay'));
  await expect(end).rejects.toMatchObject({ code: 'lock_lost' });
  expect(ran).toBe(false);
});

test('when a result cannot be recorded, running tools are stopped and no other starts', async () => {
  const world = makeWorld();
  const ran: string[] = [];
  world.onRecord = () => Promise.reject(new RunError('queue_unavailable', 'away'));
  const tools = [
    tool('first', () => ran.push('first')),
    tool(
      'long',
      (_args, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    ),
    tool('next', () => ran.push('next')),
  ];
  const end = world.run(tools, calls('first', 'long', 'long', 'next'), { maxParallel: 2 });
  await expect(end).rejects.toMatchObject({ code: 'queue_unavailable' });
  expect(ran).toEqual(['first']);
});

test('a read tool that is rate limited is tried again with growing waits, and no event shows it', async () => {
  const world = makeWorld();
  let tries = 0;
  const look = tool('look', () => {
    if (++tries < 4) throw new ToolError('rate_limited', 'busy');
    return 'there';
  });
  const end = world.run([look], calls('look'));
  for (const wait of [250, 500, 1_000]) await world.clock.pass(wait);
  await end;
  expect(world.result(0).content).toBe('there');
  expect(world.eventsOf('tool.execute.start')).toHaveLength(1);
});

test('a tool that stays rate limited is tried four times', async () => {
  const world = makeWorld();
  let tries = 0;
  const look = tool('look', () => {
    tries++;
    throw new ToolError('rate_limited', 'busy');
  });
  const end = world.run([look], calls('look'));
  for (const wait of [250, 500, 1_000]) await world.clock.pass(wait);
  await end;
  expect(tries).toBe(4);
  expect(world.result(0).errorKind).toBe('rate_limited');
});

test('a once tool that is rate limited is not tried again', async () => {
  const world = makeWorld();
  let tries = 0;
  const pay = tool(
    'pay',
    () => {
      tries++;
      throw new ToolError('rate_limited', 'busy');
    },
    { effect: 'once' },
  );
  await world.run([pay], calls('pay'));
  expect(tries).toBe(1);
  expect(world.result(0).errorKind).toBe('rate_limited');
});

test('a read tool without an answer in time is abandoned with the kind timeout', async () => {
  const world = makeWorld();
  const end = world.run([tool('look', () => new Promise(() => {}), { timeoutMs: 700 })], calls('look'));
  await world.clock.pass(700);
  await world.clock.pass(graceMs);
  expect(await end).toEqual({ kind: 'done' });
  expect(world.result(0)).toMatchObject({ errorKind: 'timeout' });
});

test('a once tool without an answer in time has an unknown outcome', async () => {
  const world = makeWorld();
  const end = world.run([tool('pay', () => new Promise(() => {}), { effect: 'once', timeoutMs: 700 })], calls('pay'));
  await world.clock.pass(700);
  await world.clock.pass(graceMs);
  await end;
  expect(world.result(0).errorKind).toBe('outcome_unknown');
  expect(world.eventsOf('tool.outcome_unknown')).toEqual([
    { type: 'tool.outcome_unknown', toolCallId: 'call_0', toolName: 'pay', key: 'R:s1:t0' },
  ]);
});

test('a once tool without an answer in time is asked what it did', async () => {
  const world = makeWorld();
  const pay = tool('pay', () => new Promise(() => {}), {
    effect: 'once',
    timeoutMs: 700,
    reconcile: async () => ({ outcome: 'done', result: 'paid after all' }),
  });
  const end = world.run([pay], calls('pay'));
  await world.clock.pass(700);
  await world.clock.pass(graceMs);
  await end;
  expect(world.result(0).content).toBe('paid after all');
});

test('an abort stops the running calls and leaves them without a result, finished ones keep theirs', async () => {
  const world = makeWorld();
  const done = Promise.withResolvers<void>();
  const tools = [
    tool(
      'slow',
      (_args, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    ),
    tool('fast', () => 'quick'),
    tool('never', () => new Promise(() => {})),
  ];
  world.onRecord = async () => done.resolve();
  const end = world.run(tools, calls('slow', 'fast', 'never'));
  await done.promise;
  world.stop.abort(new RunError('cancelled', 'stop'));
  await world.clock.pass(graceMs);
  expect(await end).toEqual({ kind: 'aborted' });
  expect(world.journal.map((entry) => entry.t === 'tool_result' && entry.index)).toEqual([1]);
  expect(world.events.slice(3).map((event) => [event.type, 'toolName' in event && event.toolName])).toEqual([
    ['tool.execute.error', 'slow'],
    ['tool.execute.end', 'fast'],
    ['tool.execute.error', 'never'],
  ]);
  expect(world.eventsOf('tool.execute.error')[0]?.error.kind).toBe('aborted');
});

test('a result that comes right after the abort is recorded, because the effect has happened', async () => {
  const world = makeWorld();
  const started = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<string>();
  const pay = tool(
    'pay',
    () => {
      started.resolve();
      return answer.promise;
    },
    { effect: 'once' },
  );
  const end = world.run([pay], calls('pay'));
  await started.promise;
  world.stop.abort();
  answer.resolve('paid');
  expect(await end).toEqual({ kind: 'aborted' });
  expect(world.result(0).content).toBe('paid');
});

test.each([
  ['cancelled', 'once', 1],
  ['run_timeout', 'once', 1],
  ['worker_lost', 'once', 0],
  ['cancelled', 'read', 0],
] as const)(
  'an abort with %s of a running %s call says %i times that its outcome is not known',
  async (code, effect, times) => {
    const world = makeWorld();
    const started = Promise.withResolvers<void>();
    const stubborn = tool(
      'pay',
      () => {
        started.resolve();
        return new Promise(() => {});
      },
      { effect },
    );
    const end = world.run([stubborn], calls('pay'));
    await started.promise;
    world.stop.abort(new RunError(code, 'over'));
    await world.clock.pass(graceMs);
    await end;
    expect(world.eventsOf('tool.outcome_unknown')).toHaveLength(times);
  },
);

test('a secret of this process that a tool returns reaches neither the journal nor the model', async () => {
  const world = makeWorld();
  await world.run([tool('look', () => ({ found: 'hunter2-secret' }))], calls('look'));
  expect(world.result(0).content).toBe('{"found":"[redacted]"}');
});

test('an identical call of one with an unknown outcome is refused, another one runs', async () => {
  const world = makeWorld();
  const paid: unknown[] = [];
  const pay = tool('pay', (args) => paid.push(args), { effect: 'once' });
  const asked = calls({ name: 'pay', args: '{"to":"a","sum":5}' }, { name: 'pay', args: '{"to":"a","sum":6}' });
  await world.run([pay], asked, { unknownCalls: [{ name: 'pay', args: '{ "sum": 5, "to": "a" }' }] });
  expect(paid).toEqual([{ to: 'a', sum: 6 }]);
  expect(world.result(0)).toMatchObject({ errorKind: 'outcome_unknown' });
  expect(world.result(0).content).toContain('a person has approved');
  expect(world.eventsOf('tool.outcome_unknown')).toEqual([]);
});

describe('the start of each call of a step', () => {
  const people = { isHeadless: false, ttlMs: 60_000, approvers: 1 };
  const policy = createPolicy([policyRule.parse({ ruleId: 'r', action: 'deny', condition: { toolName: 'banned' } })], {
    commands: [],
    allowInsecure: [],
    isPrivateHost: () => false,
  });
  const denied = {
    kind: 'approval' as const,
    id: 'call_2',
    granted: false,
    by: ['ada'],
    at: '2026-11-01T00:00:00.000Z',
  };
  const args = '{"agent":"billing","message":"the plan"}';

  test('is emitted in call order, whichever run does it, and shows nothing of a call that is not made', async () => {
    const world = makeWorld();
    const tools = [
      ...createAskAgentTools([{ id: 'billing' }]),
      createAskUser(),
      ...['look', 'banned'].map((name) => tool(name, () => 1)),
      tool('pay', () => 1, { needsApproval: true }),
    ];
    const ask = { id: 'call_2', kind: 'approval' as const, index: 2, requestedAtMs: 0, expiresAtMs: 9e15 };
    const question = { ...ask, id: 'call_6', kind: 'user_input' as const, index: 6 };
    const answer = { ...denied, kind: 'answer' as const, id: 'call_6', answer: 'yes' };
    const asked = calls(
      { name: 'look', args },
      { name: 'ask_agent', args },
      { name: 'pay', args, ask, decision: denied },
      { name: 'banned', args },
      { name: 'ask_agent', args: '{"agent":7}' },
      { name: 'ask_agent', args },
      { name: 'ask_user', args: '{"question":"Now?"}', ask: question, decision: answer },
      { name: 'look', args },
    );
    await world.run(
      tools,
      asked,
      { maxDelegated: 4 },
      {
        people,
        policy,
        denials: { policyDenial: 'feed_back', approvalDenial: 'feed_back' },
        childIdFor: (step, index) => `child-${step}-${index}`,
      },
    );
    const starts = world.eventsOf('tool.execute.start');
    expect(starts.map(({ toolCallId }) => toolCallId)).toEqual(asked.map(({ id }) => id));
    const shown = JSON.parse(args) as object;
    expect(starts.map((event) => event.args)).toEqual([shown, shown, {}, {}, {}, shown, { question: 'Now?' }, shown]);
    expect(starts[3]?.summary).toBe('banned({})');
  });
});
