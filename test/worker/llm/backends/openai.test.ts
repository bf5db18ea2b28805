import { expect, onTestFinished, test } from 'vitest';
import {
  createOpenAICompatibleBackend,
  type OpenAiCompatibleOptions,
} from '../../../../src/worker/llm/backends/openai.ts';
import type { LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { startRawProvider } from '../../../support/raw-provider.ts';
import { responses } from '../../../support/raw-responses.ts';

const request: LlmRequest = {
  model: 'other',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [{ role: 'user', content: 'hi' }],
};
const whole: OpenAiCompatibleOptions = { baseUrl: 'http://127.0.0.1:1/v1', model: 'm', apiKey: 'k' };
const make = (options: object) => () => createOpenAICompatibleBackend(options as OpenAiCompatibleOptions);

test.each(['baseUrl', 'model', 'apiKey'] as const)('without %s it cannot be made', (field) => {
  const { [field]: _, ...rest } = whole;
  expect(make(rest)).toThrow(
    expect.objectContaining({ code: 'invalid_config', details: [expect.stringContaining(`${field}: must be`)] }),
  );
});

test('everything that is wrong is reported at once', () => {
  expect(make({ baseUrl: 'ftp://x', apiKey: '', modle: 'm', idleTimeoutMs: 0 })).toThrow(
    expect.objectContaining({
      details: [
        'baseUrl: must be an http or https URL',
        'model: must be given',
        'apiKey: must be a text or a function',
        expect.stringContaining('idleTimeoutMs: '),
        expect.stringContaining('modle'),
      ],
    }),
  );
});

test('a link-local base URL is refused unless its host is allowed', () => {
  const baseUrl = 'http://169.254.169.254/v1';
  expect(make({ ...whole, baseUrl })).toThrow(/link-local/);
  expect(make({ ...whole, baseUrl, allowedHosts: ['169.254.169.254'] })).not.toThrow();
});

test.each(['chat', 'responses'] as const)('its model is called through %s, whatever a run asks for', async (api) => {
  const server = await startRawProvider(api === 'chat' ? undefined : responses({ text: ['Hello.'] }));
  onTestFinished(() => server[Symbol.asyncDispose]());
  const backend = createOpenAICompatibleBackend({
    ...whole,
    baseUrl: server.url,
    apiKey: async () => 'looked-up',
    api,
    id: 'mine',
    limits: { requestsPerMinute: 60 },
  });
  const answer = await backend.generate(request, () => {}, new AbortController().signal);
  expect(answer.message.parts).toEqual([{ type: 'text', text: 'Hello.' }]);
  expect(server.requests[0]).toMatchObject({ body: { model: 'm' }, headers: { authorization: 'Bearer looked-up' } });
  expect(backend).toMatchObject({ id: 'mine', acceptsSensitivity: ['public', 'internal', 'secret'] });
  expect(backend.limitsOf?.('m')).toEqual({ requestsPerMinute: 60 });
});
