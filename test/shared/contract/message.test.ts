import { expect, test } from 'vitest';
import { type Message, withoutReasoning } from '../../../src/shared/contract/message.ts';

const ask = (content: string): Message => ({ role: 'user', content });
const thought: Message = { role: 'assistant', parts: [{ type: 'reasoning', text: 'hm', provider: 'a' }] };
const said = (text: string): Message => ({ role: 'assistant', parts: [{ type: 'text', text }] });

test('messages without foreign reasoning are the same array', () => {
  const messages = [ask('hi'), thought, said('ok')];
  expect(withoutReasoning(messages, 'a')).toBe(messages);
});

test('a message that was reasoning alone goes, and its neighbours of one role become one', () => {
  expect(withoutReasoning([ask('one'), thought, ask('two'), said('x'), ask('three')], 'b')).toEqual([
    ask('one\n\ntwo'),
    said('x'),
    ask('three'),
  ]);
});

test('messages that were neighbours before stay apart', () => {
  expect(withoutReasoning([ask('one'), ask('two'), said('x'), thought], 'b')).toEqual([
    ask('one'),
    ask('two'),
    said('x'),
  ]);
});

test('answers to different tool calls never become one', () => {
  const tool = (id: string): Message => ({ role: 'tool', toolCallId: id, toolName: 't', content: id });
  expect(withoutReasoning([tool('1'), thought, tool('2')], undefined)).toEqual([tool('1'), tool('2')]);
});
