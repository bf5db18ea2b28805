import { expect, test } from 'vitest';
import * as fc from 'fast-check';
import type { EventBody } from '../../../src/shared/contract/event.ts';
import { zeroUsage } from '../../../src/shared/contract/money.ts';
import { boundedEvents, maxAnswerBytes, maxEventBytes } from '../../../src/worker/run/bounded-events.ts';

const bytesOf = (event: unknown) => Buffer.byteLength(JSON.stringify(event));
const start = (args: Record<string, unknown>): EventBody => ({
  type: 'tool.execute.start',
  toolCallId: 'call_1',
  toolName: 'save',
  args,
  summary: 'save(…)',
});

test('an event within its bound is the very same', () => {
  const event = start({ text: 'x'.repeat(60_000) });
  expect(boundedEvents(event)).toEqual([event]);
  expect(boundedEvents(event)[0]).toBe(event);
});

test('of a longer event the long texts are cut, with a marker, and the field is named', () => {
  const [event, ...more] = boundedEvents(start({ path: '/a', text: 'é'.repeat(1_000_000) }));
  expect(more).toEqual([]);
  expect(bytesOf(event)).toBeLessThan(maxEventBytes);
  expect(event).toMatchObject({ toolCallId: 'call_1', args: { path: '/a' }, truncated: ['args'] });
  expect(JSON.stringify(event)).toContain('2000000 bytes in all');
});

/** Events that carry an answer of so many characters. */
const answers = (chars: number): readonly EventBody[] => {
  const text = 'x'.repeat(chars);
  const totals = { usage: { ...zeroUsage, byModel: {} }, costMicrocents: 1, durationMs: 1 };
  const error = { code: 'internal', message: 'a defect', retryable: false } as const;
  return [
    { type: 'text.complete', text },
    { type: 'agent.response', text },
    { type: 'agent.end', output: text, status: 'completed' },
    { type: 'run.completed', status: 'completed', result: { text }, ...totals, steps: 1 },
    { type: 'run.failed', error, ...totals, partial: text },
    { type: 'node.completed', output: text, tokensUsed: { input: 1, output: 1, model: 'm' } },
  ];
};

test.each(answers(900_000))('the answer in $type is whole up to a mebibyte', (event) => {
  expect(boundedEvents(event)).toEqual([event]);
});

test('an answer above a mebibyte is cut, and most of it is kept', () => {
  const event = (chars: number): EventBody => ({ type: 'agent.response', text: 'x'.repeat(chars) });
  const [long] = boundedEvents(event(2_000_000));
  expect(long).toHaveProperty('truncated', ['text']);
  expect(bytesOf(long)).toBeLessThan(maxAnswerBytes);
  expect(bytesOf(long)).toBeGreaterThan(maxAnswerBytes / 3);
});

test.each(['text.delta', 'reasoning.delta'] as const)('a long %s becomes several, and no text is lost', (type) => {
  const delta = '😀 and so on '.repeat(20_000);
  const events = boundedEvents({ type, delta, model: 'm' });
  expect(events.length).toBeGreaterThan(1);
  const pieces = events.map((event) => (event.type === type ? event.delta : ''));
  expect(pieces.join('')).toBe(delta);
  expect(pieces.filter((piece) => !piece.isWellFormed())).toEqual([]);
  expect(events.filter((event) => bytesOf(event) >= maxEventBytes)).toEqual([]);
});

test('of a long list, an object of many fields and a deep one the beginning is kept', () => {
  const args = (value: unknown) => boundedEvents(start({ value }))[0];
  const list = Array.from({ length: 100_000 }, (_, index) => index);
  expect(args(list)).toMatchObject({ args: { value: list.slice(0, 1_000) }, truncated: ['args'] });
  const fields = list.map((index) => [`f${index}`, index] as const);
  expect(args(Object.fromEntries(fields))).toMatchObject({
    args: { value: Object.fromEntries(fields.slice(0, 1_000)) },
    truncated: ['args'],
  });
  const deep = Array.from({ length: 300 }).reduce<unknown>((inner) => ({ inner, note: 'x'.repeat(300) }), 'the core');
  expect(JSON.stringify(args(deep))).toContain('{"inner":"[left out]","note"');
});

test('an event leaves room for its envelope', () => {
  const event = start({ text: 'x'.repeat(maxEventBytes - 1_000) });
  expect(bytesOf(event)).toBeLessThan(maxEventBytes);
  expect(boundedEvents(event)[0]).toHaveProperty('truncated', ['args']);
});

test('whatever a tool reports, its event is within the bound', () => {
  const long = fc.tuple(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 40_000 }));
  const text = long.map(([piece, times]) => piece.repeat(Math.ceil(times / (piece.length + 1))));
  const value = fc.letrec((tie) => ({
    any: fc.oneof(text, fc.integer(), fc.array(tie('any'), { maxLength: 50 }), fc.dictionary(text, tie('any'))),
  })).any;
  fc.assert(
    fc.property(value, (data) => {
      const [event] = boundedEvents({ type: 'tool.execute.progress', toolCallId: 'c', data });
      expect(bytesOf(event)).toBeLessThan(maxEventBytes);
    }),
    { numRuns: 40 },
  );
});
