import { expect, test } from 'vitest';
import * as fc from 'fast-check';
import type { EventBody } from '../../../src/shared/contract/event.ts';
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

test('the answer of a run is whole up to a mebibyte', () => {
  const event = (chars: number): EventBody => ({ type: 'agent.response', text: 'x'.repeat(chars) });
  expect(boundedEvents(event(900_000))[0]).not.toHaveProperty('truncated');
  const [long] = boundedEvents(event(2_000_000));
  expect(long).toHaveProperty('truncated', ['text']);
  expect(bytesOf(long)).toBeLessThan(maxAnswerBytes);
  expect(bytesOf(long)).toBeGreaterThan(maxAnswerBytes / 3);
});

test('a long delta becomes several, and no text is lost', () => {
  const delta = '😀 and so on '.repeat(20_000);
  const events = boundedEvents({ type: 'text.delta', delta, model: 'm' });
  expect(events.length).toBeGreaterThan(1);
  expect(events.map((event) => (event.type === 'text.delta' ? event.delta : '')).join('')).toBe(delta);
  expect(events.every((event) => bytesOf(event) < maxEventBytes && JSON.stringify(event).isWellFormed())).toBe(true);
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
