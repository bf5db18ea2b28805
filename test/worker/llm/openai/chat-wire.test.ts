import { expect, test } from 'vitest';
import type { Message } from '../../../../src/shared/contract/message.ts';
import { chatBody } from '../../../../src/worker/llm/openai/chat.ts';
import type { LlmRequest } from '../../../../src/worker/llm/provider.ts';

const request: LlmRequest = { model: 'm', requestId: 'r', idempotencyKey: 'r', messages: [] };
const options = { provider: 'p', maxTokensField: 'max_tokens' } as const;
const messagesOf = (...messages: readonly Message[]) => chatBody({ ...request, messages }, options).messages;
const tool = { name: 'find', description: 'Finds.', parameters: { type: 'object' } };

test('every kind of message has its place on the wire', () => {
  const messages = messagesOf(
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Where is 7?' },
    {
      role: 'assistant',
      parts: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_call', id: 'c', name: 'find', args: '{"order":7}' },
      ],
    },
    { role: 'tool', toolCallId: 'c', toolName: 'find', content: 'shipped' },
    { role: 'assistant', parts: [{ type: 'tool_call', id: 'd', name: 'find', args: '' }] },
  );
  expect(messages).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Where is 7?' },
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'find', arguments: '{"order":7}' } }],
    },
    { role: 'tool', tool_call_id: 'c', content: 'shipped' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'd', type: 'function', function: { name: 'find', arguments: '{}' } }],
    },
  ]);
});

test('arguments that are not JSON go back as an empty object, because servers parse them', () => {
  const [message] = messagesOf({
    role: 'assistant',
    parts: [{ type: 'tool_call', id: 'c', name: 'find', args: '{bad' }],
  });
  expect(message).toMatchObject({ tool_calls: [{ function: { arguments: '{}' } }] });
});

test('reasoning stays here unless this provider sent a proof along with it', () => {
  const reasoning = { type: 'reasoning', text: 'hm', provider: 'p' } as const;
  const text = { type: 'text', text: 'yes' } as const;
  const [without, own, foreign] = messagesOf(
    { role: 'assistant', parts: [reasoning, text] },
    { role: 'assistant', parts: [{ ...reasoning, meta: { details: ['proof'] } }, text] },
    { role: 'assistant', parts: [{ ...reasoning, provider: 'q', meta: { details: ['proof'] } }, text] },
  );
  expect(without).toEqual({ role: 'assistant', content: 'yes' });
  expect(own).toEqual({ role: 'assistant', content: 'yes', reasoning_details: ['proof'] });
  expect(foreign).toEqual({ role: 'assistant', content: 'yes' });
});

test('a call goes back with the proof that this provider sent along with it, and with no other', () => {
  const call = { type: 'tool_call', id: '__proto__', name: 'find', args: '{}' } as const;
  const proof = { google: { thought_signature: 'sig' } };
  const reasoning = { type: 'reasoning', text: '', meta: { calls: [['__proto__', proof]] } } as const;
  const [own, foreign, odd] = messagesOf(
    { role: 'assistant', parts: [{ ...reasoning, provider: 'p' }, call] },
    { role: 'assistant', parts: [{ ...reasoning, provider: 'q' }, call] },
    { role: 'assistant', parts: [{ ...reasoning, provider: 'p', meta: 'of another kind' }, call] },
  );
  const plain = { id: '__proto__', type: 'function', function: { name: 'find', arguments: '{}' } };
  expect(own).toEqual({ role: 'assistant', content: null, tool_calls: [{ ...plain, extra_content: proof }] });
  expect(foreign).toEqual({ role: 'assistant', content: null, tool_calls: [plain] });
  expect(odd).toEqual(foreign);
});

test('a message of reasoning alone is not sent', () => {
  expect(messagesOf({ role: 'assistant', parts: [{ type: 'reasoning', text: 'hm', provider: 'p' }] })).toEqual([]);
});

test('tools bring a choice along, and no tools bring neither', () => {
  expect(chatBody({ ...request, tools: [tool] }, options)).toMatchObject({
    tools: [{ type: 'function', function: tool }],
    tool_choice: 'auto',
  });
  expect(chatBody({ ...request, tools: [tool], toolChoice: { name: 'find' } }, options).tool_choice).toEqual({
    type: 'function',
    function: { name: 'find' },
  });
  const none = chatBody({ ...request, tools: [], toolChoice: 'auto' }, options);
  expect(none).not.toHaveProperty('tools');
  expect(none).not.toHaveProperty('tool_choice');
});

test('every setting has its field, and the token limit has the one that the server knows', () => {
  const full = {
    ...request,
    maxOutputTokens: 9,
    temperature: 0,
    topP: 0.5,
    stop: ['END'],
    reasoningEffort: 'low',
    responseFormat: { type: 'json_object' },
  };
  const expected = {
    temperature: 0,
    top_p: 0.5,
    stop: ['END'],
    reasoning_effort: 'low',
    response_format: { type: 'json_object' },
  };
  expect(chatBody(full, options)).toMatchObject({ ...expected, max_tokens: 9 });
  expect(chatBody(full, { ...options, maxTokensField: 'max_completion_tokens' })).toMatchObject({
    ...expected,
    max_completion_tokens: 9,
  });
});
