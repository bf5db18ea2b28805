import { describe, expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../../../src/shared/contract/config.ts';
import type { LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createProviders } from '../../../../src/worker/llm/backends/providers.ts';
import { startRawProvider } from '../../../support/raw-provider.ts';
import { scratchFile } from '../scratch-file.ts';

const redis = { REDIS_URL: 'redis://127.0.0.1:1' };
const providersOf = (settings: Record<string, string>, env: Record<string, string> = {}) =>
  createProviders(parseConfig({ ...redis, ...settings }), (name) => env[name]);
const request: LlmRequest = {
  model: 'm',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;

async function server() {
  const raw = await startRawProvider();
  onTestFinished(() => raw[Symbol.asyncDispose]());
  return raw;
}

test('with nothing configured the built-in script answers and says so', async () => {
  const providers = providersOf({});
  expect(providers.scripted).toBe(true);
  const found = providers.providerFor('any-model');
  expect(found).toMatchObject({ model: 'any-model', provider: { id: 'scripted' } });
  expect((await found?.provider.generate(request, () => {}, never))?.finishReason).toBe('stop');
});

test('in production nothing configured is an error that names what to set', () => {
  expect(() => providersOf({ NODE_ENV: 'production' })).toThrow(/OPENAI_API_KEY/);
});

test('a script replaces a configured provider', async () => {
  const path = scratchFile('script.yaml', 'rules: [{ answer: { text: from the file } }]');
  const providers = providersOf({ MILLRACE_SCRIPT: path, OPENAI_API_KEY: 'sk-real' });
  expect(providers.scripted).toBe(false);
  const answer = await providers.providerFor('m')?.provider.generate(request, () => {}, never);
  expect(answer?.message.parts).toEqual([{ type: 'text', text: 'from the file' }]);
});

test('what a provider takes in all is reported, where the file says so', () => {
  const path = scratchFile(
    'providers.yaml',
    '[{ id: slow, kind: openai, baseUrl: "http://127.0.0.1:1", limits: { tokensPerMinute: 60 } }]',
  );
  const { about } = providersOf({ MILLRACE_PROVIDERS: path });
  expect(about.find(({ id }) => id === 'slow')?.tokensPerMinute).toBe(60);
});

test('a base URL alone is enough, and its server gets the model name as it stands', async () => {
  const raw = await server();
  const providers = providersOf({ OPENAI_BASE_URL: raw.url });
  expect(providers).toMatchObject({ scripted: false, secrets: [] });
  const found = providers.providerFor('openai/gpt-oss');
  expect(found?.model).toBe('openai/gpt-oss');
  await found?.provider.generate(request, () => {}, never);
  expect(raw.requests[0]?.headers.authorization).toBe('Bearer none');
  expect(raw.requests[0]?.body).not.toHaveProperty('max_completion_tokens');
});

test("OpenAI's own server is reached by its name as well", () => {
  const providers = providersOf({ OPENAI_API_KEY: 'sk-secret' });
  expect(providers.providerFor('openai/gpt-5.2-mini')).toMatchObject({
    model: 'gpt-5.2-mini',
    provider: { id: 'openai' },
  });
  expect(providers.providerFor('gpt-5.2-mini')?.provider.id).toBe('openai');
  expect(providers.providerFor('gpt-5.2-mini', 'elsewhere')).toBeUndefined();
  expect(providers.secrets).toEqual(['sk-secret']);
});

describe('a providers file', () => {
  const file = (url: string) => `
- { id: local, kind: openai, baseUrl: "${url}" }
- { id: hosted, kind: openai, baseUrl: "${url}", keyEnv: HOSTED_KEY, organization: org-1, prices: [{ model: big, inputUsdPerMillion: 1, outputUsdPerMillion: 2 }] }
`;

  test('its providers are found by id and by prefix, each with its key', async () => {
    const raw = await server();
    const providers = providersOf(
      { MILLRACE_PROVIDERS: scratchFile('providers.yaml', file(raw.url)), OPENAI_API_KEY: 'sk-default' },
      { HOSTED_KEY: 'hosted-key' },
    );
    expect(providers.secrets).toEqual(['sk-default', 'hosted-key']);
    expect(providers.prices).toEqual([
      { provider: 'hosted', model: 'big', inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
    ]);
    const found = providers.providerFor('hosted/org/big');
    expect(found).toMatchObject({ model: 'org/big', provider: { id: 'hosted' } });
    await found?.provider.generate(request, () => {}, never);
    expect(raw.requests[0]?.headers).toMatchObject({
      authorization: 'Bearer hosted-key',
      'openai-organization': 'org-1',
    });
    expect(providers.providerFor('big', 'local')).toMatchObject({ model: 'big', provider: { id: 'local' } });
    expect(providers.providerFor('local/big', 'local')?.model).toBe('big');
    expect(providers.providerFor('local/big', 'hosted')).toMatchObject({
      model: 'local/big',
      provider: { id: 'hosted' },
    });
    expect(providers.providerFor('gpt-5.2-mini')?.provider.id).toBe('openai');
  });

  test('a model without a provider belongs to none when there are several and no default', () => {
    const path = scratchFile('providers.yaml', file('http://127.0.0.1:1/v1'));
    expect(providersOf({ MILLRACE_PROVIDERS: path }, { HOSTED_KEY: 'k' }).providerFor('big')).toBeUndefined();
    const single = scratchFile('providers.yaml', file('http://127.0.0.1:1/v1').split('\n').slice(0, 2).join('\n'));
    expect(providersOf({ MILLRACE_PROVIDERS: single }).providerFor('big')?.provider.id).toBe('local');
  });

  test('every problem is reported at once, missing keys among them', () => {
    const path = scratchFile(
      'providers.yaml',
      '- { id: Bad Id, kind: openai, baseUrl: ftp://x }\n- { id: a, kind: other, baseUrl: "http://x" }\n',
    );
    const details = ['0.id', '0.baseUrl', '1.kind'].map((name) => expect.stringContaining(name));
    expect(() => providersOf({ MILLRACE_PROVIDERS: path })).toThrow(
      expect.objectContaining({ code: 'invalid_config', details: expect.arrayContaining(details) }),
    );
    const keyless = scratchFile('providers.yaml', file('http://127.0.0.1:1/v1'));
    expect(() => providersOf({ MILLRACE_PROVIDERS: keyless })).toThrow(/HOSTED_KEY is not set/);
  });

  test('an id that is there twice is a problem', () => {
    const entry = '- { id: a, kind: openai, baseUrl: "http://x/v1" }\n';
    expect(() => providersOf({ MILLRACE_PROVIDERS: scratchFile('providers.yaml', entry + entry) })).toThrow(
      /a is there twice/,
    );
  });
});

test('the window of a model is what its row in the providers file says', () => {
  const path = scratchFile(
    'providers.yaml',
    '- { id: acme, kind: openai, baseUrl: https://acme.example/v1, models: [{ model: small, contextWindow: 32000 }] }',
  );
  const { provider } = providersOf({ MILLRACE_PROVIDERS: path }).providerFor('small') ?? {};
  expect([provider?.contextWindowOf?.('small'), provider?.contextWindowOf?.('other')]).toEqual([32_000, undefined]);
});
