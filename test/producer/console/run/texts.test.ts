import { expect, test } from 'vitest';
import { maxLiveChars, noText, withEvent } from '../../../../src/producer/console/views/run/record/live-text.ts';
import { beginningOf, firstChars, prettyOf } from '../../../../src/producer/console/views/run/record/shown-text.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';

const event = (type: string, body: object) => ({ type, ...body }) as RunEvent;
const delta = (text: string) => event('text.delta', { delta: text, model: 'gpt-5.2-mini' });

test('tokens become the text of their step, and a step that is made again begins anew', () => {
  const events = [
    event('step.start', { stepNumber: 1, model: 'gpt-5.2-mini' }),
    delta('It was '),
    delta('lost'),
    event('step.reset', { stepNumber: 1, reason: 'recovered' }),
    delta('It was '),
    delta('shipped.'),
  ];
  expect(events.reduce(withEvent, noText)).toMatchObject({ stepNumber: 1, text: 'It was shipped.', cut: 0 });
  const next = withEvent(events.reduce(withEvent, noText), event('step.start', { stepNumber: 2, model: 'b' }));
  expect(next).toMatchObject({ stepNumber: 2, text: '', model: 'b' });
});

test('of a long text the end is kept', () => {
  const live = withEvent(withEvent(noText, delta('a'.repeat(maxLiveChars))), delta('bc'));
  expect(live.text).toHaveLength(maxLiveChars);
  expect(live).toMatchObject({ cut: 2 });
  expect(live.text.endsWith('abc')).toBe(true);
});

test('the beginning of a text ends at its bounds, and never within a character', () => {
  expect(beginningOf('short')).toEqual({ text: 'short', left: 0 });
  expect(beginningOf('a'.repeat(firstChars + 5))).toMatchObject({ left: 5 });
  expect(beginningOf('1\n2\n3\n4', 100, 2)).toEqual({ text: '1\n2', left: 4 });
  expect(beginningOf('ab😀cd', 3)).toEqual({ text: 'ab', left: 4 });
});

test('JSON is laid out, and other text left alone', () => {
  expect(prettyOf('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(prettyOf('[broken')).toBe('[broken');
  expect(prettyOf('7 orders')).toBe('7 orders');
});
