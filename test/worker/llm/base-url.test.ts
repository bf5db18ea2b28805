import { isIP } from 'node:net';
import { request } from 'undici';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Lookup } from '../../../src/shared/egress/guarded-agent.ts';
import { baseUrlProblem, sensitivityAt, type EgressRule } from '../../../src/worker/llm/base-url.ts';
import { createOpenAiChatProvider } from '../../../src/worker/llm/openai/chat.ts';
import { createTransport } from '../../../src/worker/llm/openai/transport.ts';
import { mayBeBilled } from '../../../src/worker/llm/errors.ts';
import { startRawProvider } from '../../support/raw-provider.ts';

const open: EgressRule = { allowedHosts: [], production: false };
const strict: EgressRule = { allowedHosts: [], production: true };

describe('a base URL', () => {
  const metadata = [
    'http://169.254.169.254/v1',
    'http://[::ffff:169.254.169.254]/v1',
    'http://[fe80::1]/v1',
    'http://[fd00:ec2::254]/v1',
    'http://[64:ff9b::a9fe:a9fe]/v1',
    'https://100.100.100.200/v1',
    'http://2852039166/v1',
    'http://0xa9.0xfe.0xa9.0xfe/v1',
    'http://224.0.0.1/v1',
  ];
  test.each(metadata)('%s is refused everywhere, and the message says how to allow it', (url) => {
    expect(baseUrlProblem(url, open)).toMatch(/link-local or metadata .* LLM_ALLOWED_HOSTS/);
    expect(baseUrlProblem(url, strict)).toMatch(/LLM_ALLOWED_HOSTS/);
  });

  test.each(['http://127.0.0.1:8000/v1', 'http://[::1]:1/v1', 'http://localhost/v1', 'http://0.0.0.0:8000/v1'])(
    '%s is this machine and never refused',
    (url) => {
      expect(baseUrlProblem(url, strict)).toBeUndefined();
    },
  );

  test.each(['http://10.0.0.7/v1', 'https://192.168.1.2/v1', 'http://[fd12::1]/v1', 'http://models/v1'])(
    '%s is for development only',
    (url) => {
      expect(baseUrlProblem(url, open)).toBeUndefined();
      expect(baseUrlProblem(url, strict)).toMatch(/production refuses/);
    },
  );

  test('a public host behind TLS is fine in production', () => {
    expect(baseUrlProblem('https://api.openai.com/v1', strict)).toBeUndefined();
  });

  test.each<[string, string]>([
    ['http://169.254.169.254/v1', '169.254.169.254'],
    ['http://10.0.0.7:8000/v1', '10.0.0.7:8000'],
    ['http://models/v1', 'models:80'],
    ['http://Models./v1', 'models'],
    ['http://[fd12::1]:8000/v1', '[fd12::1]:8000'],
    ['http://[fd12::1]:8000/v1', 'fd12::1'],
  ])('%s is allowed by the entry %s', (url, entry) => {
    expect(baseUrlProblem(url, { allowedHosts: [entry], production: true })).toBeUndefined();
  });

  test('an entry with a port allows no other port', () => {
    expect(baseUrlProblem('http://10.0.0.7:9000/v1', { allowedHosts: ['10.0.0.7:8000'], production: true })).toBeTypeOf(
      'string',
    );
  });
});

describe('a name', () => {
  const refused = { code: 'EGRESS_REFUSED', message: expect.stringContaining('LLM_ALLOWED_HOSTS') };
  test.each<[string, EgressRule, string[], object]>([
    ['a metadata address is refused, also among others', open, ['2d00::1', '169.254.169.254'], refused],
    ['a private address is refused in production', strict, ['10.0.0.7'], refused],
    ['nothing is an error too', open, [], { message: 'models.example has no address' }],
  ])('that resolves to %s', async (_, rule, addresses, expected) => {
    const found = addresses.map((address) => ({ address, family: isIP(address) }));
    const dispatcher = createTransport(rule, (_name, _options, callback) => callback(null, found));
    onTestFinished(() => dispatcher.destroy());
    await expect(request('https://models.example/v1', { dispatcher })).rejects.toMatchObject(expected);
  });

  test('that is a refused address is not connected to, however the transport comes by it', async () => {
    const dispatcher = createTransport();
    onTestFinished(() => dispatcher.destroy());
    await expect(request('http://169.254.169.254/v1', { dispatcher })).rejects.toMatchObject(refused);
    await expect(request('http://[fe80::1]/v1', { dispatcher })).rejects.toMatchObject(refused);
  });

  test('that resolves to an address of this machine may be connected to', async () => {
    const server = await startRawProvider((response) => void response.end('here'));
    const { port } = new URL(server.url);
    const lookup: Lookup = (_name, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]);
    const dispatcher = createTransport(open, lookup);
    onTestFinished(async () => {
      await dispatcher.destroy();
      await server[Symbol.asyncDispose]();
    });
    const { body } = await request(`http://models.example:${port}/v1`, { dispatcher });
    expect(await body.text()).toBe('here');
  });

  test('that resolves to a refused address is never connected to', async () => {
    const server = await startRawProvider();
    const resolved: string[] = [];
    const dispatcher = createTransport(strict, (name, _options, callback) => {
      resolved.push(name);
      callback(null, [{ address: '10.0.0.7', family: 4 }]);
    });
    onTestFinished(async () => {
      await dispatcher.destroy();
      await server[Symbol.asyncDispose]();
    });
    const provider = createOpenAiChatProvider({
      id: 'p',
      baseUrl: 'https://models.example/v1',
      apiKey: 'k',
      startTimeoutMs: 5_000,
      idleTimeoutMs: 5_000,
      dispatcher,
    });
    const call = provider.generate(
      { model: 'm', requestId: 'r', idempotencyKey: 'r', messages: [{ role: 'user', content: 'hi' }] },
      () => {},
      new AbortController().signal,
    );
    const error = await call.catch((thrown: unknown) => thrown);
    expect(resolved).toEqual(['models.example']);
    expect(error).toMatchObject({
      kind: 'transport',
      retryable: false,
      message:
        'provider p is not asked: models.example resolves to a private address, which production refuses: add models.example to LLM_ALLOWED_HOSTS if that is meant',
    });
    expect(mayBeBilled(error as Parameters<typeof mayBeBilled>[0])).toBe(false);
  });
});

test.each([
  ['http://127.0.0.1:1/v1', ['public', 'internal', 'secret']],
  ['http://localhost/v1', ['public', 'internal', 'secret']],
  ['http://10.0.0.7/v1', ['public', 'internal']],
  ['http://models:8000/v1', ['public', 'internal']],
  ['http://models.prod.svc.cluster.local/v1', ['public', 'internal']],
  ['https://api.openai.com/v1', ['public']],
  ['http://models.example/v1', []],
  ['http://203.0.113.5/v1', []],
])('%s accepts %j unless it declares otherwise', (url, accepted) => {
  expect(sensitivityAt(url)).toEqual(accepted);
});
