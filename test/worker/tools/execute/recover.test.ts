import { describe, expect, test } from 'vitest';
import { ToolError } from '../../../../src/worker/tools/tool-error.ts';
import type { Reconciliation, ToolDefinition } from '../../../../src/worker/tools/tool.ts';
import type { StepCall } from '../../../../src/shared/contract/journal/turn-state.ts';
import { calls, makeWorld, tool } from '../world.ts';

const interrupted = (name: string) => ({ name, status: 'interrupted' as const });

test.each(['read', 'idempotent'] as const)(
  'a %s call that was interrupted runs again with the same key',
  async (effect) => {
    const world = makeWorld();
    const keys: string[] = [];
    await world.run(
      [tool('put', (_args, { idempotencyKey }) => keys.push(idempotencyKey), { effect })],
      calls(interrupted('put')),
      { step: 3 },
    );
    expect(keys).toEqual(['R:s3:t0']);
    expect(world.journal.map((entry) => entry.t)).toEqual(['tool_result']);
  },
);

test('a once call that was interrupted is never repeated, and the result says so to the model', async () => {
  const world = makeWorld();
  let ran = 0;
  await world.run([tool('pay', () => ran++, { effect: 'once' })], calls(interrupted('pay')));
  expect(ran).toBe(0);
  expect(world.result(0)).toMatchObject({ errorKind: 'outcome_unknown' });
  expect(world.result(0).content).toMatch(/not known.*Kind: outcome_unknown$/s);
  expect(world.events.map((event) => event.type)).toEqual(['tool.outcome_unknown', 'tool.execute.error']);
});

test('an interrupted call of a tool that is gone by now has an unknown outcome', async () => {
  const world = makeWorld();
  expect(await world.run([], calls(interrupted('pay')))).toEqual({ kind: 'done' });
  expect(world.result(0)).toMatchObject({ errorKind: 'outcome_unknown' });
  expect(world.eventsOf('tool.outcome_unknown')).toHaveLength(1);
});

test.each<[string, () => Promise<Reconciliation>, number, string | undefined, string]>([
  ['done', async () => ({ outcome: 'done', result: { id: 7 } }), 0, undefined, '{"id":7}'],
  ['not done', async () => ({ outcome: 'not_done' }), 1, undefined, 'ran'],
  ['unknown', async () => ({ outcome: 'unknown' }), 0, 'outcome_unknown', 'not known'],
  ['an error', async () => Promise.reject(new Error('away')), 0, 'outcome_unknown', 'not known'],
  ['nonsense', async () => ({ outcome: 'maybe' }) as never, 0, 'outcome_unknown', 'not known'],
  ['nothing', async () => undefined as never, 0, 'outcome_unknown', 'not known'],
])(
  'a once call that was interrupted follows its reconcile when that answers %s',
  async (_what, answer, runs, errorKind, content) => {
    const world = makeWorld();
    let ran = 0;
    const asked: unknown[] = [];
    const pay = tool('pay', () => (ran++, 'ran'), {
      effect: 'once',
      reconcile: (key, args) => (asked.push([key, args]), answer()),
    });
    await world.run([pay], calls({ ...interrupted('pay'), args: '{"sum":5}' }));
    expect(asked).toEqual([['R:s1:t0', { sum: 5 }]]);
    expect(ran).toBe(runs);
    expect(world.result(0).errorKind).toBe(errorKind);
    expect(world.result(0).content).toContain(content);
  },
);

test('onUnknown suspend finishes the other calls and leaves the unknown one to a person', async () => {
  const world = makeWorld();
  const tools = [tool('pay', () => 1, { effect: 'once', onUnknown: 'suspend' }), tool('look', () => 'blue')];
  const end = await world.run(tools, calls({ ...interrupted('pay'), args: '{"sum":5,"password":"p"}' }, 'look'));
  expect(end).toMatchObject({
    kind: 'suspended',
    reason: 'unknown_outcome',
    pending: [
      { kind: 'unknown_outcome', id: 'call_0:outcome', toolName: 'pay', args: { sum: 5, password: '[redacted]' } },
    ],
  });
  expect(world.journal.map((entry) => entry.t === 'tool_result' && entry.index)).toEqual([1]);
});

describe('a person about a call in doubt', () => {
  const at = '2026-11-01T00:00:00.000Z';
  const ask = { id: 'call_0:outcome', kind: 'unknown_outcome' as const, index: 0, requestedAtMs: 0, expiresAtMs: 1e15 };
  const decided = (decision: StepCall['decision']) =>
    calls({ ...interrupted('pay'), ask, ...(decision && { decision }) });
  const granted = { kind: 'approval' as const, id: ask.id, granted: true, by: ['ada'], at };

  test.each([
    ['make it again', granted, 1, { content: '1' }],
    ['do not', { ...granted, granted: false }, 0, { errorKind: 'outcome_unknown' }],
    ['it has happened', { kind: 'answer' as const, id: ask.id, answer: 'no. 7', by: [], at }, 0, { content: 'no. 7' }],
  ])('says %s', async (_what, decision, times, result) => {
    const world = makeWorld();
    let ran = 0;
    const pay = tool('pay', () => ++ran, { effect: 'once', onUnknown: 'suspend', needsApproval: true });
    expect(await world.run([pay], decided(decision))).toEqual({ kind: 'done' });
    expect(ran).toBe(times);
    expect(world.result(0)).toMatchObject(result);
  });

  test('says nothing, and it goes on waiting', async () => {
    const world = makeWorld();
    const pay = tool('pay', () => 1, { effect: 'once', onUnknown: 'suspend' });
    expect(await world.run([pay], decided(undefined))).toMatchObject({ kind: 'suspended', asks: [ask] });
  });
});

test('onUnknown fail ends the step before any other call starts', async () => {
  const world = makeWorld();
  let looked = false;
  const tools = [tool('pay', () => 1, { effect: 'once', onUnknown: 'fail' }), tool('look', () => (looked = true))];
  const end = await world.run(tools, calls(interrupted('pay'), 'look'));
  expect(end).toMatchObject({ kind: 'failed', error: { code: 'tool_outcome_unknown' } });
  expect(looked).toBe(false);
});

test('calls that were not begun run, with their intent recorded first', async () => {
  const world = makeWorld();
  const pay = tool('pay', () => 'paid', { effect: 'once' });
  await world.run([pay], calls(interrupted('pay'), { name: 'pay', args: '{"sum":5}' }));
  const order = world.journal.map((entry) => (entry.t === 'tool_result' ? `called ${entry.index}` : entry.t));
  expect(order.toSorted()).toEqual(['called 0', 'called 1', 'tool_intent']);
  expect(order.indexOf('tool_intent')).toBeLessThan(order.indexOf('called 1'));
  expect(world.journal).toContainEqual({
    v: 1,
    t: 'tool_intent',
    step: 1,
    indexes: [1],
    at: expect.any(String) as string,
  });
});

test('a call that became unknown in this step forbids an identical one after it', async () => {
  const world = makeWorld();
  let ran = 0;
  await world.run([tool('pay', () => ran++, { effect: 'once' })], calls(interrupted('pay'), 'pay'));
  expect(ran).toBe(0);
  expect(world.result(1).content).toContain('a person has approved');
});

test('results that an earlier worker recorded out of order are emitted once their turn comes', async () => {
  const world = makeWorld();
  const called = (name: string, content: string) => ({ name, status: 'tool_result' as const, result: { content } });
  await world.run(
    [tool('look', () => 'mine')],
    calls({ ...called('a', 'emitted before'), endPublished: true }, 'look', called('b', 'not emitted yet')),
  );
  expect(world.eventsOf('tool.execute.end').map((event) => event.outputSummary)).toEqual(['mine', 'not emitted yet']);
  expect(world.journal).toHaveLength(1);
});

test('an abort while a tool is asked what it did leaves the call in doubt', async () => {
  const world = makeWorld();
  const asked = Promise.withResolvers<void>();
  const pay = tool('pay', () => 1, {
    effect: 'once',
    reconcile: (_key, _args, signal) => {
      asked.resolve();
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    },
  });
  const end = world.run([pay], calls(interrupted('pay')));
  await asked.promise;
  world.stop.abort();
  expect(await end).toEqual({ kind: 'aborted' });
  expect(world.journal).toEqual([]);
  expect(world.eventsOf('tool.outcome_unknown')).toEqual([]);
});

describe('a `once` tool that does not know itself what its call has done', () => {
  const unsure = (reconcile?: ToolDefinition['reconcile']) =>
    tool(
      'send',
      () => {
        throw new ToolError('outcome_unknown', 'the line is dead');
      },
      { effect: 'once', ...(reconcile && { reconcile }) },
    );

  test('is emitted as such, and an identical call is refused', async () => {
    const world = makeWorld();
    await world.run([unsure()], calls('send'));
    expect(world.result(0)).toMatchObject({ errorKind: 'outcome_unknown' });
    expect(world.eventsOf('tool.outcome_unknown')).toMatchObject([{ toolName: 'send', key: 'R:s1:t0' }]);
  });

  test.each([
    [{ outcome: 'done', result: 'sent' } as const, { content: 'sent' }],
    [{ outcome: 'not_done' } as const, { errorKind: 'execution_failed' }],
  ])('asks outside first: %j', async (found, result) => {
    const world = makeWorld();
    await world.run([unsure(() => Promise.resolve(found))], calls('send'));
    expect(world.result(0)).toMatchObject(result);
    expect(world.eventsOf('tool.outcome_unknown')).toEqual([]);
  });
});
