import { describe, expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../../../../src/shared/contract/config.ts';
import type { LlmProvider, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createProviders } from '../../../../src/worker/llm/backends/providers.ts';
import { startRawProvider } from '../../../support/raw-provider.ts';
import { responses } from '../../../support/raw-responses.ts';
import { scratchFile } from '../scratch-file.ts';

const request: LlmRequest = {
  model: 'm',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;

function providersOf(text: string, env: Record<string, string> = {}, settings: Record<string, string> = {}) {
  const MILLRACE_PROVIDERS = scratchFile('providers.yaml', text);
  return createProviders(
    parseConfig({ REDIS_URL: 'redis://127.0.0.1:1', MILLRACE_PROVIDERS, ...settings }),
    (name) => env[name],
  );
}
function providerIn(text: string, env: Record<string, string> = {}): LlmProvider {
  const found = providersOf(text, env).providerFor('p/m')?.provider;
  if (!found) throw new Error('no provider p');
  return found;
}
const entry = (fields: string) => `- { id: p, kind: openai, baseUrl: "http://127.0.0.1:1/v1", ${fields} }\n`;

async function server(reply?: Parameters<typeof startRawProvider>[0]) {
  const raw = await startRawProvider(reply);
  onTestFinished(() => raw[Symbol.asyncDispose]());
  return raw;
}

test('limits stand at the provider and, field by field before them, at a model', () => {
  const provider = providerIn(
    entry(
      'limits: { requestsPerMinute: 60, tokensPerMinute: 20000 }, models: [{ model: big, limits: { requestsPerMinute: 5, maxInFlight: 2 } }]',
    ),
  );
  expect(provider.limitsOf?.('other')).toEqual({ requestsPerMinute: 60, tokensPerMinute: 20_000 });
  expect(provider.limitsOf?.('big')).toEqual({ requestsPerMinute: 5, tokensPerMinute: 20_000, maxInFlight: 2 });
  expect(providerIn(entry('models: []')).limitsOf?.('m')).toBeUndefined();
});

test('a credential is named without being shown, the same for one key at one server', () => {
  const credential = (fields: string, key: string) => providerIn(entry(fields), { KEY: key }).credential;
  const one = credential('keyEnv: KEY', 'sk-one-secret');
  expect(one).toMatch(/^[0-9a-f]{16}$/);
  expect(credential('keyEnv: KEY, models: []', 'sk-one-secret')).toBe(one);
  expect(credential('keyEnv: KEY', 'sk-two-secret')).not.toBe(one);
});

test('a key is read again at every attempt, so that a renewed one counts', async () => {
  const raw = await server();
  const env: Record<string, string> = { KEY: 'sk-old-key' };
  const provider = providerIn(`- { id: p, kind: openai, baseUrl: "${raw.url}", keyEnv: KEY }`, env);
  const { credential } = provider;
  await provider.generate(request, () => {}, never);
  env['KEY'] = 'sk-new-key';
  await provider.generate(request, () => {}, never);
  expect(raw.requests.map(({ headers }) => headers.authorization)).toEqual(['Bearer sk-old-key', 'Bearer sk-new-key']);
  expect(provider.credential).toBe(credential);
});

test('what a provider may see follows from its base URL unless it is declared', () => {
  expect(providerIn(entry('')).acceptsSensitivity).toEqual(['public', 'internal', 'secret']);
  expect(providerIn(entry('acceptsSensitivity: [public]')).acceptsSensitivity).toEqual(['public']);
  expect(providerIn('- { id: p, kind: openai, baseUrl: "https://x.example/v1" }').acceptsSensitivity).toEqual([
    'public',
  ]);
});

test('capabilities that are left out are there', () => {
  expect(providerIn(entry('capabilities: { tools: false }')).capabilities).toMatchObject({
    tools: false,
    reasoning: true,
  });
});

test('a provider of kind openai-responses speaks Responses, with what its entry says', async () => {
  const raw = await server(responses({ text: ['Hello.'] }));
  const provider = providerIn(
    `- { id: p, kind: openai-responses, baseUrl: "${raw.url}", reasoningSummary: concise, metadata: true, sessions: true, models: [{ model: plain, reasoning: false }] }`,
  );
  const answer = await provider.generate({ ...request, metadata: { run_id: 'r-1' } }, () => {}, never);
  expect(answer.sessionToken).toBe('resp_raw');
  expect(raw.requests[0]).toMatchObject({
    path: '/v1/responses',
    body: { reasoning: { summary: 'concise' }, metadata: { run_id: 'r-1' }, store: true },
  });
  await provider.generate({ ...request, model: 'plain' }, () => {}, never);
  expect(raw.requests[1]?.body).not.toHaveProperty('include');
});

test('a server that cannot stream is asked for whole answers', async () => {
  const completion = { choices: [{ message: { content: 'Hello.' }, finish_reason: 'stop' }] };
  const raw = await server((response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(completion));
  });
  const provider = providerIn(
    `- { id: p, kind: openai, baseUrl: "${raw.url}", streaming: false, idempotencyHeader: X-Once }`,
  );
  const parts: unknown[] = [];
  await provider.generate(request, (part) => parts.push(part), never);
  expect(parts).toEqual([{ type: 'text', delta: 'Hello.' }]);
  expect(raw.requests[0]?.body).toEqual({ model: 'm', messages: [{ role: 'user', content: 'hi' }], stream: false });
  expect(raw.requests[0]?.headers).toMatchObject({ 'x-once': 'r' });
});

describe('problems', () => {
  const problemsOf = (...call: Parameters<typeof providersOf>): string[] => {
    try {
      providersOf(...call);
    } catch (error) {
      const { code, details, message } = error as { code: string; details: string[]; message: string };
      expect(code).toBe('invalid_config');
      expect(message).toBe(details.join('\n'));
      return details.map((detail) => detail.replace(/^.*providers\.yaml: /, ''));
    }
    return [];
  };

  test('of every entry are listed at once: fields, prices, keys, addresses, names that are there twice', () => {
    const text = `
- { id: a, kind: openai, baseUrl: "http://169.254.169.254/v1", keyEnv: MISSING, prices: [{ model: m, inputUsdPerMillion: -1 }] }
- { id: a, kind: other, baseUrl: "ftp://x", limits: { requestsPerMinute: 0 }, typo: 1 }
- { id: b, kind: openai, baseUrl: "https://x.example", sessions: true, models: [{ model: m }, { model: m }] }
- 7
`;
    const problems = problemsOf(text);
    for (const start of [
      '0.prices.0.inputUsdPerMillion: ',
      '0.prices.0.outputUsdPerMillion: ',
      '0.baseUrl: 169.254.169.254 is a link-local or metadata address',
      'provider a: the environment variable MISSING is not set',
      '1.kind: ',
      '1.baseUrl: must be an http or https URL',
      '1.limits.requestsPerMinute: ',
      '1.typo: is not a known field',
      '1.id: a is there twice',
      '2.sessions: has a meaning for kind openai-responses only',
      '2.models.1.model: m is there twice',
      '3: ',
    ]) {
      expect(problems).toContainEqual(expect.stringContaining(start));
    }
    expect(problems).toHaveLength(12);
  });

  test('an empty file says so', () => {
    expect(problemsOf('[]')).toEqual(['the file: must name at least one provider']);
  });

  test('in production a private address needs to be allowed by name, at start', () => {
    const text = '- { id: p, kind: openai, baseUrl: "http://10.0.0.7:8000/v1" }';
    const production = { NODE_ENV: 'production' };
    expect(problemsOf(text, {}, production)).toEqual([
      '0.baseUrl: 10.0.0.7 is a private address, which production refuses: add 10.0.0.7 to LLM_ALLOWED_HOSTS if that is meant',
    ]);
    expect(problemsOf(text, {}, { ...production, LLM_ALLOWED_HOSTS: '10.0.0.7:8000' })).toEqual([]);
  });

  test('the default provider follows the same rule', () => {
    const config = parseConfig({ REDIS_URL: 'redis://127.0.0.1:1', OPENAI_BASE_URL: 'http://169.254.169.254/v1' });
    expect(() => createProviders(config, () => undefined)).toThrow(/OPENAI_BASE_URL: 169\.254\.169\.254 is/);
  });
});
