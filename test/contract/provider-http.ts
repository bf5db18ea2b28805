import { describe, expect, onTestFinished, test } from 'vitest';
import { LlmError } from '../../src/worker/llm/errors.ts';
import type { OpenAiOptions } from '../../src/worker/llm/openai/call.ts';
import type { LlmPart, LlmProvider, LlmRequest } from '../../src/worker/llm/provider.ts';
import { createTransport } from '../../src/worker/llm/openai/transport.ts';
import { until } from '../support/redis.ts';
import {
  body,
  data,
  endlessLine,
  keepAlive,
  reset,
  stall,
  startRawProvider,
  status,
  stream,
  type Reply,
} from '../support/raw-provider.ts';

/** One interface that is spoken over HTTP. */
export interface HttpKind {
  readonly name: string;
  create(options: OpenAiOptions): LlmProvider;
  /** The events of an answer that says `Hello`: the part before its end, and its end. */
  readonly hello: { readonly begin: string; readonly end: string };
}

const request: LlmRequest = {
  model: 'm',
  requestId: 'run:step:1',
  idempotencyKey: 'run:step:1',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;
const secretKey = 'secret-key-0815';

/** What every adapter makes of what comes over the wire, by real exchanges. */
export function httpContract(kind: HttpKind): void {
  const { begin, end } = kind.hello;

  async function world(reply: Reply | readonly Reply[], options: Partial<OpenAiOptions> = {}) {
    const server = await startRawProvider(reply);
    const dispatcher = createTransport();
    onTestFinished(async () => {
      await dispatcher.destroy();
      await server[Symbol.asyncDispose]();
    });
    const provider = kind.create({
      id: 'p',
      baseUrl: server.url,
      apiKey: secretKey,
      startTimeoutMs: 5_000,
      idleTimeoutMs: 5_000,
      dispatcher,
      ...options,
    });
    const parts: LlmPart[] = [];
    const generate = (overrides: Partial<LlmRequest> = {}) =>
      provider.generate({ ...request, ...overrides }, (part) => parts.push(part), never);
    const failure = async (): Promise<LlmError> => {
      const error = await generate().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(LlmError);
      return error as LlmError;
    };
    return { server, provider, parts, generate, failure };
  }

  describe(`over HTTP: ${kind.name}`, () => {
    test.each<[number, Record<string, unknown>, string, boolean]>([
      [400, {}, 'bad_request', false],
      [401, {}, 'auth', false],
      [402, {}, 'auth', false],
      [403, {}, 'auth', false],
      [404, {}, 'bad_request', false],
      [408, {}, 'timeout', true],
      [409, {}, 'bad_request', false],
      [413, {}, 'bad_request', false],
      [418, {}, 'unknown', false],
      [422, {}, 'bad_request', false],
      [425, {}, 'timeout', true],
      [429, {}, 'rate_limit', true],
      [429, { code: 'insufficient_quota' }, 'rate_limit', false],
      [429, { type: 'insufficient_quota' }, 'rate_limit', false],
      [500, { message: '429 rate limit' }, 'overloaded', true],
      [502, {}, 'overloaded', true],
      [503, {}, 'overloaded', true],
      [504, {}, 'overloaded', true],
      [529, {}, 'overloaded', true],
      [302, {}, 'unknown', false],
      [400, { code: 'context_length_exceeded' }, 'context_length', false],
      [400, { code: 'content_filter' }, 'content_filter', false],
      [400, { code: 'content_policy_violation' }, 'content_filter', false],
    ])('status %i with %j is %s', async (code, error, errorKind, retryable) => {
      const { failure, server } = await world(status(code, error));
      expect(await failure()).toMatchObject({ kind: errorKind, retryable, status: code, provider: 'p' });
      expect(server.requests).toHaveLength(1);
    });

    test.each<[string, Reply]>([
      ['ends without a finish', stream(begin)],
      ['says it is done without a finish', stream(begin, 'data: [DONE]\n\n')],
      ['is a web page', body('text/html; charset=utf-8', '<html>log in</html>')],
      ['is a web page without saying so', body('text/plain', '<html>log in</html>')],
      ['is empty', stream()],
      ['has a chunk that is not JSON', stream(begin, 'data: {"oops\n\n', end)],
      ['is reset in the middle', reset(begin)],
      ['is reset before any header', reset()],
      ['is JSON of something else', body('application/json', '{"ok":true}')],
      ['is JSON cut in two', body('application/json', '{"output":[{"mess')],
    ])('an answer that %s is a transport error, never an answer', async (_, reply) => {
      const { failure } = await world(reply);
      expect(await failure()).toMatchObject({ kind: 'transport', retryable: true });
    });

    test.each([
      [{ code: 'rate_limit_exceeded' }, 'rate_limit', true],
      [{ code: 'insufficient_quota' }, 'rate_limit', false],
      [{ code: 'context_length_exceeded' }, 'context_length', false],
      [{ code: 'server_error' }, 'overloaded', true],
      [{ code: 'content_filter' }, 'content_filter', false],
      [{ code: 'invalid_api_key' }, 'auth', false],
      [{ code: 'insufficient_quota', type: 'insufficient_quota' }, 'rate_limit', false],
      [{ type: 'server_error' }, 'overloaded', true],
      [{ code: 502 }, 'overloaded', true],
      [{ code: 401 }, 'auth', false],
      [{ code: 'never-seen' }, 'overloaded', true],
    ])('an error %j inside the stream is classified by its code', async (error, errorKind, retryable) => {
      const { failure } = await world(stream(begin, data({ error: { message: 'sorry', ...error } })));
      expect(await failure()).toMatchObject({ kind: errorKind, retryable, message: 'provider p sent an error: sorry' });
    });

    test('a server that sends no headers times out, and is hung up on', async () => {
      const { failure, server } = await world(stall(), { startTimeoutMs: 80 });
      expect(await failure()).toMatchObject({ kind: 'timeout', retryable: true });
      await until('the client hangs up', () => server.requests[0]?.closedEarly);
    });

    test('a stream that falls silent times out, and is hung up on', async () => {
      const { failure, server } = await world(stall(begin), { idleTimeoutMs: 80 });
      expect(await failure()).toMatchObject({ kind: 'timeout', message: 'provider p was silent for 80 ms' });
      await until('the client hangs up', () => server.requests[0]?.closedEarly);
    });

    test('comments that keep a slow stream open are no silence', async () => {
      const { generate } = await world(keepAlive(begin, 13, 100, end), { idleTimeoutMs: 1_000 });
      expect((await generate()).message.parts).toMatchObject([{ type: 'text', text: 'Hello' }]);
    });

    test('a line without end is refused long before it fills the memory', async () => {
      const { failure, server } = await world(endlessLine());
      expect((await failure()).message).toBe('a line of provider p is over 1048576 bytes');
      await until('the client hangs up', () => server.requests[0]?.closedEarly);
    });

    test('a large error body is cut to two kibibytes and contains no key', async () => {
      const message = `Incorrect API key provided: ${secretKey}. ${'é'.repeat(10_000)}`;
      const { failure } = await world(status(401, { message }));
      const error = await failure();
      expect(Buffer.byteLength(error.message)).toBeLessThanOrEqual(2_048);
      expect(error.message).toContain('provider p answered 401 Incorrect API key provided: [redacted].');
      expect(JSON.stringify([error, error.stack])).not.toContain(secretKey);
    });

    test('an error inside the stream contains no key either', async () => {
      const error = { message: `key ${secretKey} is out of money`, code: 'insufficient_quota' };
      const { failure } = await world(stream(begin, data({ error })));
      expect((await failure()).message).toBe('provider p sent an error: key [redacted] is out of money');
    });

    test('a key that cannot be looked up is an auth error that shows nothing of its cause', async () => {
      const apiKey = () => Promise.reject(new Error(`vault: ${secretKey}`));
      const { failure, server } = await world(stream(begin, end), { apiKey });
      const error = await failure();
      expect(error).toMatchObject({ kind: 'auth', message: 'the API key of provider p could not be looked up' });
      expect(error.cause).toBeUndefined();
      expect(server.requests).toHaveLength(0);
    });

    test('the limits in the headers come with the answer', async () => {
      const { generate } = await world(async (response) => {
        response.writeHead(200, {
          'content-type': 'text/event-stream',
          'x-ratelimit-limit-requests': '60',
          'x-ratelimit-remaining-requests': '59',
          'x-ratelimit-reset-requests': '1s',
          'x-ratelimit-limit-tokens': '20000',
          'x-ratelimit-remaining-tokens': '19000',
          'x-ratelimit-reset-tokens': '6m0s',
        });
        response.end(begin + end);
      });
      expect((await generate()).rateLimit).toEqual({
        requests: { limit: 60, remaining: 59, resetMs: 1_000 },
        tokens: { limit: 20_000, remaining: 19_000, resetMs: 360_000 },
      });
    });

    test('the limits and the wait in the headers come with a refusal', async () => {
      const headers = {
        'x-ratelimit-remaining-tokens': '0',
        'x-ratelimit-reset-tokens': '120ms',
        'retry-after-ms': '250',
      };
      const { failure } = await world(status(429, {}, headers));
      expect(await failure()).toMatchObject({
        retryAfterMs: 250,
        rateLimit: { tokens: { remaining: 0, resetMs: 120 } },
      });
    });

    test('an answer that breaks off still has the limits of its headers', async () => {
      const { failure } = await world(async (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'x-ratelimit-remaining-requests': '3' });
        response.end(begin);
      });
      expect(await failure()).toMatchObject({ kind: 'transport', rateLimit: { requests: { remaining: 3 } } });
    });

    test('the keys of the step travel as headers, the model with them for a fallback', async () => {
      const { generate, server } = await world(stream(begin, end), { organization: 'org-7' });
      await generate();
      await generate({ isFallback: true });
      expect(server.requests[0]?.headers).toMatchObject({
        authorization: `Bearer ${secretKey}`,
        'idempotency-key': 'run:step:1',
        'x-client-request-id': 'run:step:1',
        'openai-organization': 'org-7',
      });
      expect(server.requests[1]?.headers).toMatchObject({
        'idempotency-key': 'run:step:1:m',
        'x-client-request-id': 'run:step:1',
      });
    });

    test('the idempotency key travels under another name, or not at all, where that is asked for', async () => {
      const { generate, server } = await world(stream(begin, end), { idempotencyHeader: 'X-Once' });
      await generate();
      expect(server.requests[0]?.headers).toMatchObject({ 'x-once': 'run:step:1' });
      const without = await world(stream(begin, end), { idempotencyHeader: false });
      await without.generate();
      expect(without.server.requests[0]?.headers).not.toHaveProperty('idempotency-key');
    });

    test('metadata stays here unless the server takes it', async () => {
      const metadata = { run_id: 'r-1', content_channels: { system: 'trusted_system' }, long: 'x'.repeat(600) };
      const closed = await world(stream(begin, end));
      await closed.generate({ metadata });
      expect(JSON.stringify(closed.server.requests[0])).not.toContain('r-1');
      const open = await world(stream(begin, end), { sendsMetadata: true });
      await open.generate({ metadata });
      expect(open.server.requests[0]?.body.metadata).toEqual({
        run_id: 'r-1',
        content_channels: '{"system":"trusted_system"}',
        long: 'x'.repeat(512),
      });
    });

    test.each([{ baseUrl: '' }, { apiKey: '' }])('a provider without %j cannot be made', (missing) => {
      const options = { id: 'p', baseUrl: 'http://x/v1', apiKey: 'k', startTimeoutMs: 1, idleTimeoutMs: 1, ...missing };
      expect(() => kind.create(options)).toThrow(expect.objectContaining({ code: 'invalid_config' }));
    });
  });
}
