import { expect, test } from 'vitest';
import type { Message } from '../../../src/shared/contract/message.ts';
import { requestFor, type ChainRequest } from '../../../src/worker/llm/candidate.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';

const schema = { type: 'object', properties: { n: { type: 'integer' } } };
const user: Message = { role: 'user', content: 'hi' };

function sent(messages: readonly Message[], capable: boolean, more: Partial<ChainRequest> = {}) {
  const provider = {
    ...createScriptedProvider(() => ({ text: 'x' })),
    capabilities: { tools: true, reasoning: true, responseFormat: capable },
  };
  const request: ChainRequest = {
    requestId: 'r',
    idempotencyKey: 'r',
    messages,
    responseFormat: { type: 'json_schema', json_schema: { name: 'output', schema } },
    ...more,
  };
  return requestFor({ provider, model: 'm', maxAttempts: 1, backoff: 'linear' }, request, undefined);
}

test('a provider that may look past a response format gets the shape at the end of the system text', () => {
  const { messages, responseFormat } = sent([{ role: 'system', content: 'Be brief.' }, user], false);
  expect(messages).toHaveLength(2);
  expect(messages[0]).toEqual({
    role: 'system',
    content: expect.stringMatching(/^Be brief\.\n\n.*nothing but JSON.*"integer"/s),
  });
  expect(messages[1]).toBe(user);
  expect(responseFormat).toBeDefined();
});

test('where there is no system text the shape becomes one', () => {
  expect(sent([user], false).messages.map(({ role }) => role)).toEqual(['system', 'user']);
});

test('a provider that keeps to response formats gets no shape in words', () => {
  expect(sent([user], true).messages).toEqual([user]);
});

test('a request without a shape stays as it is', () => {
  const provider = createScriptedProvider(() => ({ text: 'x' }));
  const request = { requestId: 'r', idempotencyKey: 'r', messages: [user] };
  const candidate = { provider, model: 'm', maxAttempts: 1, backoff: 'linear' as const };
  expect(requestFor(candidate, request, undefined).messages).toEqual([user]);
});
