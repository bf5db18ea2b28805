import { describe, expect, test } from 'vitest';
import { llmErrorKind } from '../../src/worker/llm/errors.ts';
import type { LlmPart, LlmProvider, LlmRequest } from '../../src/worker/llm/provider.ts';
import {
  always,
  byAgent,
  byModel,
  calls,
  fails,
  FakeClock,
  hangs,
  saysJson,
  scriptedModel,
} from '../../src/testing/index.ts';

const never = new AbortController().signal;

function request(changes: Partial<LlmRequest> = {}): LlmRequest {
  return { model: 'm', requestId: 'r', idempotencyKey: 'r', messages: [{ role: 'user', content: 'hi' }], ...changes };
}

async function ask(model: LlmProvider, changes: Partial<LlmRequest> = {}, signal = never) {
  const parts: LlmPart[] = [];
  const answer = await model.generate(request(changes), (part) => parts.push(part), signal);
  return { answer, parts, deltas: parts.flatMap((part) => ('delta' in part ? [part.delta] : [])) };
}

test('answers come in their order, and what was asked can be read back', async () => {
  const model = scriptedModel(['one two', calls('find', { order: 7 }), saysJson({ ok: true })]);
  expect((await ask(model)).deltas).toEqual(['one', ' two']);
  expect((await ask(model, { model: 'other' })).answer.message.parts).toMatchObject([
    { type: 'tool_call', name: 'find', args: '{"order":7}' },
  ]);
  expect(model.left).toBe(1);
  expect((await ask(model)).deltas.join('')).toBe('{"ok":true}');
  expect(model.requests.map((asked) => asked.model)).toEqual(['m', 'other', 'm']);
  expect(model.left).toBe(0);
});

test('a request too many fails and says what it was about', async () => {
  const model = scriptedModel(['one']);
  await ask(model);
  const messages = [{ role: 'tool', toolCallId: 'c', toolName: 'find', content: 'nothing' }] as const;
  await expect(ask(model, { messages })).rejects.toMatchObject({
    kind: 'unknown',
    message: 'the script has one answer, and model m is asked once more, after the result of find: nothing',
  });
});

test('a text in pieces comes in these pieces, with the usage that is given', async () => {
  const usage = { input: 1, output: 2, cached: 3, cacheWrite: 4, total: 10 };
  const { answer, deltas } = await ask(scriptedModel([{ text: ['Hel', 'lo'], usage }]));
  expect([deltas, answer.usage]).toEqual([['Hel', 'lo'], usage]);
  const estimated = await ask(scriptedModel([{ text: ['Hel', 'lo you'] }]));
  expect(estimated.answer.usage).toMatchObject({ output: 3 });
});

test.each(llmErrorKind.options.filter((kind) => kind !== 'cancelled'))('a call can fail as %s', async (kind) => {
  const parts: LlmPart[] = [];
  const model = scriptedModel([fails(kind, { status: 418, retryAfterMs: 5, text: 'so far' })]);
  const failing = model.generate(request(), (part) => parts.push(part), never);
  await expect(failing).rejects.toMatchObject({ kind, status: 418, retryAfterMs: 5 });
  expect(parts).toHaveLength(2);
  expect(model.requests).toHaveLength(1);
});

test('delays go by the clock, before the first part and before each', async () => {
  const clock = new FakeClock();
  const model = scriptedModel([{ text: ['a', 'b'], afterMs: 1_000, deltaMs: 10 }], { clock });
  const at: number[] = [];
  const answering = model.generate(request(), () => at.push(clock.elapsedMs), never);
  await clock.advance(5_000);
  await answering;
  expect(at).toEqual([1_010, 1_020]);
});

test('the clock of a test is the one of a model without its own', async () => {
  const [own, other] = [new FakeClock({ skipWaits: true }), new FakeClock({ skipWaits: true })];
  const free = scriptedModel([{ text: 'a', afterMs: 7 }]);
  const bound = scriptedModel([{ text: 'a', afterMs: 7 }], { clock: own });
  for (const model of [free, bound]) {
    model.useClock(other);
    await ask(model);
  }
  expect([own.waits, other.waits]).toEqual([[7], [7]]);
});

test('a model that hangs ends when it is cancelled, and not before', async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const model = scriptedModel([hangs('so')], { clock });
  const parts: LlmPart[] = [];
  const answering = model.generate(request(), (part) => parts.push(part), stop.signal);
  await clock.advance(2 ** 33);
  expect(parts).toHaveLength(1);
  stop.abort();
  await expect(answering).rejects.toMatchObject({ kind: 'cancelled' });
});

describe('a script for each', () => {
  test('model answers that model, and counts what is left of all', async () => {
    const model = scriptedModel(
      byModel({ big: [fails('overloaded')], small: always('small talk'), other: ['x', 'y'] }),
    );
    await expect(ask(model, { model: 'big' })).rejects.toMatchObject({ kind: 'overloaded' });
    expect((await ask(model, { model: 'small' })).deltas.join('')).toBe('small talk');
    await expect(ask(model)).rejects.toThrow('there is no script for model m, only for big, small, other');
    expect(model.left).toBe(2);
  });

  test('agent answers that agent', async () => {
    const model = scriptedModel(byAgent({ support: ['I ask billing.'], billing: ['Paid.'] }));
    expect((await ask(model, { metadata: { agent_name: 'billing' } })).deltas.join('')).toBe('Paid.');
    await expect(ask(model)).rejects.toThrow('there is no script for agent');
  });
});

test('a script that is none is refused', () => {
  expect(() => scriptedModel('Hello' as never)).toThrow('a script is a list of answers, or a function');
});
