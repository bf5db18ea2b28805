import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { toolErrorText } from '../../../src/shared/base/errors.ts';
import { loopGuard, loopGuardOf } from '../../../src/shared/contract/agent/loop-guard.ts';
import type { Message } from '../../../src/shared/contract/message.ts';
import { findLoop, nextRung, pastCalls, type LoopView, type ToolTraits } from '../../../src/worker/guards/loop.ts';

const reads: ToolTraits = { mayRepeat: false, reads: true, delegates: false };
const acts: ToolTraits = { ...reads, reads: false };
const guard = loopGuard.parse({});

interface Said {
  readonly name?: string;
  readonly args?: string;
  readonly content: string;
  readonly isError?: true;
}

/** A conversation of steps with one call each, or several. */
function conversation(...steps: readonly (Said | readonly Said[])[]): Message[] {
  return steps.flatMap((step, number) => {
    const calls = Array.isArray(step) ? (step as readonly Said[]) : [step as Said];
    const parts = calls.map(({ name = 'look', args = '{}' }, index) => {
      return { type: 'tool_call' as const, id: `${number}-${index}`, name, args };
    });
    const results = calls.map(({ name = 'look', content, isError }, index): Message => {
      return { role: 'tool', toolCallId: `${number}-${index}`, toolName: name, content, ...(isError && { isError }) };
    });
    return [{ role: 'assistant', parts } satisfies Message, ...results];
  });
}

function view(messages: readonly Message[], over: Partial<LoopView> = {}): LoopView {
  const calls = pastCalls(messages);
  const step = calls.at(-1)?.step ?? 0;
  return { calls, handoffs: [], step, rungs: new Map(), freshFrom: 0, traitsOf: () => acts, ...over };
}

const failed = (kind: 'timeout' | 'execution_failed') =>
  ({ content: toolErrorText(kind, 'no', 'look'), isError: true }) as const;

test('the third call with equal arguments and an equal result is a repeated call, however its arguments are written', () => {
  const two = conversation({ args: '{"a":1,"b":2}', content: 'blue' }, { args: '{"b":2, "a":1}', content: 'blue' });
  expect(findLoop(view(two), guard)).toBeUndefined();
  const three = [...two, ...conversation({ args: ' {"a":1,"b":2}', content: 'blue\n' })];
  expect(findLoop(view(three), guard)).toEqual({
    pattern: 'repeated_call',
    subject: 'look',
    tools: ['look'],
    count: 3,
  });
});

test('a result that changed begins the count anew', () => {
  const changed = conversation({ content: 'a' }, { content: 'a' }, { content: 'b' }, { content: 'b' });
  expect(findLoop(view(changed), guard)).toBeUndefined();
});

test('calls between the repeats do not hide them', () => {
  const other = (args: string) => ({ name: 'other', args, content: args });
  const mixed = conversation({ content: 'x' }, other('1'), { content: 'x' }, other('2'), { content: 'x' });
  expect(findLoop(view(mixed), guard)).toMatchObject({ pattern: 'repeated_call', subject: 'look', count: 3 });
});

test('a tool that may repeat is let alone, unless it fails again and again', () => {
  const traitsOf = () => ({ ...reads, mayRepeat: true });
  const polling = conversation(...Array.from({ length: 20 }, () => ({ content: 'not yet' })));
  expect(findLoop(view(polling, { traitsOf }), guard)).toBeUndefined();
  const failing = conversation(...Array.from({ length: 4 }, () => failed('timeout')));
  expect(findLoop(view(failing, { traitsOf }), guard)).toMatchObject({ pattern: 'repeated_error', count: 4 });
});

test('an agent that is asked the same again counts whatever it answers', () => {
  const traitsOf = () => ({ ...acts, delegates: true });
  const asked = conversation({ content: 'One.' }, { content: 'Two.' }, { content: 'Three.' });
  expect(findLoop(view(asked, { traitsOf }), guard)).toMatchObject({ pattern: 'repeated_call', count: 3 });
  expect(findLoop(view(asked), guard)).toBeUndefined();
});

test('errors of one kind count whatever the arguments are; another kind begins anew', () => {
  const kinds = (...errors: readonly ('timeout' | 'execution_failed')[]) =>
    conversation(...errors.map((kind, index) => ({ ...failed(kind), args: `{"try":${index}}` })));
  expect(findLoop(view(kinds('timeout', 'timeout', 'timeout', 'timeout')), guard)).toEqual({
    pattern: 'repeated_error',
    subject: 'look',
    tools: ['look'],
    count: 4,
  });
  expect(findLoop(view(kinds('timeout', 'timeout', 'execution_failed', 'timeout')), guard)).toBeUndefined();
});

test('steps that only read what was there before are stale; a step with an effect is not', () => {
  const same = Array.from({ length: 6 }, (_, page) => ({ args: `{"page":${page}}`, content: 'nothing found' }));
  const found = findLoop(view(conversation(...same), { traitsOf: () => reads }), guard);
  expect(found).toEqual({ pattern: 'stale_steps', subject: 'steps', tools: ['look'], count: 5 });
  expect(findLoop(view(conversation(...same)), guard)).toBeUndefined();
});

test('after a rung only what follows counts, with the smaller threshold', () => {
  const calls = Array.from({ length: 5 }, () => ({ content: 'x' }));
  const rungs = new Map([['look', { action: 'nudge', step: 3 }]] as const);
  expect(findLoop(view(conversation(...calls.slice(0, 4)), { rungs }), guard)).toBeUndefined();
  expect(findLoop(view(conversation(...calls), { rungs }), guard)).toMatchObject({ count: 2 });
});

test('a handoff between the same agents for the second time is a circle', () => {
  const between = (fromAgentId: string, toAgentId: string, step: number) => ({ fromAgentId, toAgentId, step });
  const handoffs = [between('a', 'b', 1), between('b', 'a', 2), between('a', 'b', 3)];
  const at = (step: number) => view([], { handoffs: handoffs.slice(0, step), step });
  expect(findLoop(at(2), guard)).toBeUndefined();
  expect(findLoop(at(3), guard)).toEqual({ pattern: 'handoff_circle', subject: 'handoff:a:b', tools: [], count: 2 });
});

test('the ladder is climbed rung by rung for each subject, and a finding without a tool skips the withdrawal', () => {
  const finding = { pattern: 'repeated_call', subject: 'look', tools: ['look'], count: 3 } as const;
  const after = (action: 'nudge' | 'withdraw') => new Map([['look', { action, step: 3 }]]);
  expect(nextRung(new Map(), finding)).toBe('nudge');
  expect(nextRung(after('nudge'), finding)).toBe('withdraw');
  expect(nextRung(after('withdraw'), finding)).toBe('suspend');
  expect(nextRung(after('withdraw'), { ...finding, subject: 'other' })).toBe('nudge');
  expect(nextRung(after('nudge'), { ...finding, tools: [] })).toBe('suspend');
});

test('an agent decides over the operator, in both directions', () => {
  expect(loopGuardOf(undefined, false)).toBeUndefined();
  expect(loopGuardOf(undefined, true)).toEqual(guard);
  expect(loopGuardOf(false, true)).toBeUndefined();
  expect(loopGuardOf(true, false)).toEqual(guard);
  expect(loopGuardOf({ ...guard, repeatedCalls: 9 }, false)).toMatchObject({ repeatedCalls: 9 });
});

const said = fc.record({
  name: fc.constantFrom('look', 'search'),
  args: fc.constantFrom('{"q":1}', '{ "q": 1 }', '{"q":2}', 'no json'),
  content: fc.constantFrom('a', 'b', 'c'),
});
const steps = fc.array(fc.array(said, { minLength: 1, maxLength: 3 }), { maxLength: 30 });

test('results that are all different are never a loop', () => {
  fc.assert(
    fc.property(steps, (given) => {
      let number = 0;
      const fresh = given.map((calls) => calls.map((call) => ({ ...call, content: `result ${number++}` })));
      expect(findLoop(view(conversation(...fresh), { traitsOf: () => reads }), guard)).toBeUndefined();
    }),
  );
});

test('a finding is never about fewer repeats than its threshold, nor about a tool that the last step did not call', () => {
  fc.assert(
    fc.property(steps, fc.boolean(), (given, isRead) => {
      const found = findLoop(view(conversation(...given), { traitsOf: () => (isRead ? reads : acts) }), guard);
      if (!found) return;
      expect(found.count).toBeGreaterThanOrEqual({ repeated_call: 3, stale_steps: 5 }[found.pattern as 'stale_steps']);
      const last = new Set(given.at(-1)?.map(({ name }) => name));
      for (const name of found.tools) expect(last).toContain(name);
    }),
  );
});

test('a model that repeats itself without end is found by every prefix from the threshold on', () => {
  fc.assert(
    fc.property(said, fc.integer({ min: 3, max: 40 }), (call, times) => {
      const same = conversation(...Array.from({ length: times }, () => call));
      expect(findLoop(view(same), guard)).toMatchObject({ pattern: 'repeated_call', count: times });
    }),
  );
});
