import { expect, test } from 'vitest';
import { withAnswerEverywhere, withAnswerOnce } from '../../../../src/shared/contract/archive/repeated-answer.ts';

const line = (kind: string, value: unknown) => `${kind}${JSON.stringify(value)}\n`;
const linesOf = (text: string, thread = 'th') =>
  `Rv 1\nRresult ${JSON.stringify({ text, finishReason: 'stop' })}\nRthread ${thread}\n${line('J', { t: 'model_response', parts: [{ text }] })}${line('E', { type: 'text.complete', text })}${line('E', { type: 'run.completed', result: { text } })}`;

test.each([
  ['an answer', 'It was sent on Monday. '.repeat(9)],
  ['one with quotes, backslashes and line breaks', 'She said "C:\\" and went \\\n"'.repeat(9)],
  ['one that ends with a backslash', `${'x'.repeat(99)}\\`],
  ['one with what a replacement would read', "$& $` $' $1 $$ ".repeat(9)],
  ['one with control characters, NUL and half an emoji', '\u0000\u0001\u001f\ud83d'.repeat(30)],
  ['one of a million characters', 'The answer. '.repeat(90_000)],
])('%s is in the text once, and comes back wherever it was', (_, text) => {
  const lines = linesOf(text);
  const once = withAnswerOnce(lines);
  expect(once.split(JSON.stringify(text))).toHaveLength(2);
  expect(once.length).toBeLessThan(lines.length / 2);
  expect(withAnswerEverywhere(once)).toBe(lines);
});

test.each([
  ['a short answer', linesOf('yes')],
  ['no answer', 'Rv 1\nRstatus failed\nE{"type":"run.failed"}\n'],
  ['a result that is no text', 'Rv 1\nRresult {"text":null}\nE{"type":"run.completed"}\n'],
  ['a result without an end', `Rv 1\nRresult {"text":"${'x'.repeat(99)}\\"`],
])('%s leaves the lines as they are', (_, lines) => {
  expect(withAnswerOnce(lines)).toBe(lines);
  expect(withAnswerEverywhere(lines)).toBe(lines);
});

test('a longer text that begins like the answer stays as it is', () => {
  const text = 'The order was sent. '.repeat(9);
  const lines = `${linesOf(text)}${line('E', { type: 'text.complete', text: `${text}More.` })}`;
  expect(withAnswerOnce(lines)).toContain(`${text}More.`);
  expect(withAnswerEverywhere(withAnswerOnce(lines))).toBe(lines);
});

test('marks without an answer, and more than any run has, are refused', () => {
  expect(() => withAnswerEverywhere('Rv 1\nE{"text":\u0001}\n')).toThrow('cannot be restored');
  const many = linesOf('x'.repeat(100_000)) + '\u0001'.repeat(1_000);
  expect(() => withAnswerEverywhere(many)).toThrow('cannot be restored');
});
