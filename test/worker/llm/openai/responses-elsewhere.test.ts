import { LLMock } from '@copilotkit/aimock';
import { expect, onTestFinished, test } from 'vitest';
import type { LlmPart, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createOpenAiResponsesProvider } from '../../../../src/worker/llm/openai/responses.ts';
import { createTransport } from '../../../../src/worker/llm/openai/transport.ts';

const request: LlmRequest = {
  model: 'gpt-5.2-mini',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [{ role: 'user', content: 'weather in Rome' }],
  tools: [{ name: 'get_weather', description: 'Weather.', parameters: { type: 'object' } }],
};
const never = new AbortController().signal;

async function world() {
  const mock = new LLMock({ port: 0, logLevel: 'silent', chunkSize: 4 });
  const dispatcher = createTransport();
  await mock.start();
  onTestFinished(async () => {
    await dispatcher.destroy();
    await mock.stop();
  });
  const provider = createOpenAiResponsesProvider({
    id: 'oai',
    baseUrl: `${mock.url}/v1`,
    apiKey: 'k',
    startTimeoutMs: 5_000,
    idleTimeoutMs: 5_000,
    dispatcher,
  });
  return { mock, provider };
}

test('a conversation with a tool runs on a Responses server that others wrote', async () => {
  const { mock, provider } = await world();
  mock.on(
    { userMessage: /weather/, hasToolResult: false },
    { reasoning: 'I need a tool.', toolCalls: [{ id: 'c1', name: 'get_weather', arguments: '{"city":"Rome"}' }] },
  );
  mock.on({ userMessage: /weather/, hasToolResult: true }, { content: 'Sunny in Rome.' });
  const parts: LlmPart[] = [];
  const first = await provider.generate(request, (part) => parts.push(part), never);
  expect(first.finishReason).toBe('tool_use');
  expect(first.message.parts.at(-1)).toEqual({
    type: 'tool_call',
    id: 'c1',
    name: 'get_weather',
    args: '{"city":"Rome"}',
  });
  expect(first.usage?.total).toBeGreaterThanOrEqual(0);
  const messages: LlmRequest['messages'] = [
    ...request.messages,
    first.message,
    { role: 'tool', toolCallId: 'c1', toolName: 'get_weather', content: 'sunny' },
  ];
  const second = await provider.generate({ ...request, messages }, (part) => parts.push(part), never);
  expect(second.finishReason).toBe('stop');
  expect(second.message.parts.at(-1)).toEqual({ type: 'text', text: 'Sunny in Rome.' });
  // As the other side understood our items.
  expect(mock.getRequests().at(-1)?.body).toMatchObject({
    messages: [
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'c1', function: { arguments: '{"city":"Rome"}' } }] },
      { role: 'tool', tool_call_id: 'c1', content: 'sunny' },
    ],
  });
  expect(parts.filter(({ type }) => type === 'text').length).toBeGreaterThan(1);
});

test('its refusals are classified like those of any server', async () => {
  const { mock, provider } = await world();
  mock.on(
    { userMessage: /weather/ },
    { error: { message: 'slow down', code: 'rate_limit_exceeded' }, status: 429, retryAfter: 1 },
  );
  await expect(provider.generate(request, () => {}, never)).rejects.toMatchObject({
    kind: 'rate_limit',
    retryAfterMs: 1_000,
  });
});
