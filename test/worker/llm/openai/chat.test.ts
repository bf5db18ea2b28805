import { onTestFinished, describe, expect, test } from 'vitest';
import { LlmError } from '../../../../src/worker/llm/errors.ts';
import type { OpenAiOptions } from '../../../../src/worker/llm/openai/call.ts';
import { createOpenAiChatProvider } from '../../../../src/worker/llm/openai/chat.ts';
import type { LlmPart, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createTransport } from '../../../../src/worker/llm/openai/transport.ts';
import { until } from '../../../support/redis.ts';
import {
  body,
  chat,
  data,
  delta,
  finish,
  reset,
  stall,
  startRawProvider,
  status,
  stream,
  type Reply,
} from '../../../support/raw-provider.ts';

const request: LlmRequest = {
  model: 'm',
  requestId: 'run:step:1',
  idempotencyKey: 'run:step:1',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;

/** A server that answers so, and a provider that talks to it. */
async function world(reply: Reply | readonly Reply[], options: Partial<OpenAiOptions> = {}) {
  const server = await startRawProvider(reply);
  const dispatcher = createTransport();
  onTestFinished(async () => {
    await dispatcher.destroy();
    await server[Symbol.asyncDispose]();
  });
  const provider = createOpenAiChatProvider({
    id: 'openai',
    baseUrl: server.url,
    apiKey: 'test-key',
    startTimeoutMs: 5_000,
    idleTimeoutMs: 5_000,
    dispatcher,
    ...options,
  });
  const parts: LlmPart[] = [];
  const generate = (overrides: Partial<LlmRequest> = {}, signal = never) =>
    provider.generate({ ...request, ...overrides }, (part) => parts.push(part), signal);
  const failure = async (signal = never): Promise<LlmError> => {
    const error = await generate({}, signal).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(LlmError);
    return error as LlmError;
  };
  return { server, provider, parts, generate, failure };
}

const hello = data(delta({ content: 'Hello' }));

describe('a well-behaved server', () => {
  test('text streams part by part and the answer is the whole of it, with usage', async () => {
    const { generate, parts } = await world(chat(() => ({ text: 'one two three' })));
    const answer = await generate();
    expect(parts).toEqual(['one', ' two', ' three'].map((text) => ({ type: 'text', delta: text })));
    expect(answer).toEqual({
      message: { role: 'assistant', parts: [{ type: 'text', text: 'one two three' }] },
      finishReason: 'stop',
      incompleteToolCalls: [],
      usage: { input: 100, output: 20, cached: 0, cacheWrite: 0, total: 120 },
      providerRequestId: 'chatcmpl-raw',
    });
  });

  test('the smallest request has only the model, the messages and the stream fields', async () => {
    const { generate, server } = await world(chat(() => ({ text: 'ok' })));
    await generate();
    expect(server.requests[0]?.body).toEqual({
      model: 'm',
      messages: [{ role: 'user', content: 'hi' }],
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(server.requests[0]?.path).toBe('/v1/chat/completions');
  });

  test('reasoning and tool calls come out in parts, and in order in the message', async () => {
    const { generate, parts } = await world(
      chat(() => ({
        reasoning: 'think hard',
        text: 'I look.',
        toolCalls: [{ id: 'c1', name: 'find', args: { order: '7', deep: { x: 1 } } }],
      })),
    );
    const answer = await generate();
    expect(answer.message.parts).toEqual([
      { type: 'reasoning', text: 'think hard', provider: 'openai' },
      { type: 'text', text: 'I look.' },
      { type: 'tool_call', id: 'c1', name: 'find', args: '{"order":"7","deep":{"x":1}}' },
    ]);
    expect(answer.finishReason).toBe('tool_use');
    expect(parts.filter((part) => part.type === 'tool_call_start')).toEqual([
      { type: 'tool_call_start', id: 'c1', name: 'find' },
    ]);
    expect(parts.map((part) => (part.type === 'tool_call_delta' ? part.delta : '')).join('')).toBe(
      '{"order":"7","deep":{"x":1}}',
    );
  });

  test('the connection of a finished call is used again', async () => {
    const connections = new Set<number | undefined>();
    const { generate } = await world((response, raw) => {
      connections.add(response.socket?.remotePort);
      return chat(() => ({ text: 'ok' }))(response, raw);
    });
    // The next call may start before the last bytes of the one before are read: then two connections take turns.
    for (let call = 0; call < 6; call++) await generate();
    expect(connections.size).toBeLessThanOrEqual(2);
  });

  test('the answer of a server that does not stream comes as parts all the same', async () => {
    const text = `${'🙂'.repeat(100)}x${'🙂'.repeat(100)}`;
    const completion = {
      id: 'c',
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 5, completion_tokens: 6 },
    };
    const { generate, parts } = await world(body('application/json', JSON.stringify(completion)));
    const answer = await generate();
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.every((part) => part.type === 'text' && part.delta.isWellFormed())).toBe(true);
    expect(parts.map((part) => (part.type === 'text' ? part.delta : '')).join('')).toBe(text);
    expect(answer).toMatchObject({ message: { parts: [{ type: 'text', text }] }, usage: { input: 5, output: 6 } });
  });
});

describe('a stream that goes wrong', () => {
  test('a web page says so', async () => {
    const { failure } = await world(body('text/html; charset=utf-8', '<html>log in</html>'));
    expect((await failure()).message).toBe('provider openai answered with a web page');
  });

  test('a last event without its line end counts', async () => {
    const { generate } = await world(stream(hello, data(finish('stop')).trimEnd()));
    expect((await generate()).finishReason).toBe('stop');
  });

  test('a chunk that is not JSON is not quoted in the error', async () => {
    const { failure } = await world(stream('data: {"private": words\n\n'));
    const error = await failure();
    expect(`${error.message} ${String(error.cause)}`).not.toContain('private');
  });

  test('a port without a server is a transport error that names the reason', async () => {
    const { failure } = await world(stall(), { baseUrl: 'http://127.0.0.1:1/v1' });
    const error = await failure();
    expect(error.kind).toBe('transport');
    expect(error.message).toContain('ECONNREFUSED');
  });

  test('silence or a reset after the finish reason takes nothing of the answer away', async () => {
    const { generate } = await world([stall(hello, data(finish('stop'))), reset(hello, data(finish('stop')))], {
      idleTimeoutMs: 80,
    });
    expect((await generate()).message.parts).toEqual([{ type: 'text', text: 'Hello' }]);
    expect((await generate()).message.parts).toEqual([{ type: 'text', text: 'Hello' }]);
  });

  test('after the finish reason silence is noticed sooner than before it', async () => {
    let nowMs = 0;
    const clock = {
      now: () => nowMs,
      monotonic: () => nowMs,
      sleep: (ms: number, signal?: AbortSignal) =>
        new Promise<void>((resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason));
          if (ms <= 5_000) resolve(void (nowMs += ms));
        }),
    };
    const { generate } = await world(stall(hello, data(finish('stop'))), {
      clock,
      startTimeoutMs: 60_000,
      idleTimeoutMs: 60_000,
    });
    expect((await generate()).finishReason).toBe('stop');
  });

  test('what comes after [DONE] is read away, so that the connection lives on', async () => {
    const ends: boolean[] = [];
    const { generate } = await world(async (response) => {
      response.on('close', () => ends.push(response.writableFinished));
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`${hello}${data(finish('stop'))}data: [DONE]\n\n`);
      await new Promise((resolve) => setTimeout(resolve, 30));
      response.end();
    });
    await generate();
    await until('the answer has ended', () => ends.length);
    expect(ends).toEqual([true]);
  });

  test('an answer is there at [DONE], also when the server keeps the connection open', async () => {
    const { generate } = await world(stall(hello, data(finish('stop')), 'data: [DONE]\n\n'));
    expect((await generate()).finishReason).toBe('stop');
  });

  test('an answer without end is refused', async () => {
    const piece = data(delta({ content: 'x'.repeat(500_000) }));
    const { failure } = await world(stream(...Array.from({ length: 25 }, () => piece)));
    expect((await failure()).message).toBe('the answer of provider openai is over 10485760 characters');
  });

  test('characters that are split between packets arrive whole', async () => {
    const text = 'Grüße 你好 🙂';
    const bytes = Buffer.from(data(delta({ content: text })) + data(finish('stop')));
    const { generate } = await world(stream(...Array.from(bytes, (byte) => Uint8Array.of(byte))));
    expect((await generate()).message.parts).toEqual([{ type: 'text', text }]);
  });
});

describe('cancelling', () => {
  test('an abort in the middle of a stream is a cancellation and hangs up', async () => {
    const cancel = new AbortController();
    const { provider, server } = await world(stall(hello));
    const call = provider.generate(request, () => cancel.abort(new Error('enough')), cancel.signal);
    await expect(call).rejects.toMatchObject({ kind: 'cancelled', retryable: false });
    await until('the server sees the hang-up', () => server.requests[0]?.closedEarly);
  });

  test('an abort with the last part is a cancellation, although the stream ended well', async () => {
    const cancel = new AbortController();
    const { provider } = await world(stream(hello + data(finish('stop')) + 'data: [DONE]\n\n'));
    await expect(provider.generate(request, () => cancel.abort(), cancel.signal)).rejects.toMatchObject({
      kind: 'cancelled',
    });
  });

  test('an abort before any header is a cancellation', async () => {
    const cancel = new AbortController();
    const { failure, server } = await world(stall());
    const call = failure(cancel.signal);
    await until('the request is there', () => server.requests.length);
    cancel.abort();
    expect((await call).kind).toBe('cancelled');
  });

  test('nothing is sent once the signal is aborted', async () => {
    const { failure, server } = await world(chat(() => ({ text: 'ok' })));
    expect((await failure(AbortSignal.abort())).kind).toBe('cancelled');
    expect(server.requests).toHaveLength(0);
  });

  test('what the consumer of parts throws comes out as it is', async () => {
    const { provider } = await world(stall(hello));
    const mistake = new Error('no room');
    const fail = () => {
      throw mistake;
    };
    await expect(provider.generate(request, fail, never)).rejects.toBe(mistake);
  });
});

describe('HTTP errors', () => {
  test('the wait that the server asks for is read from its headers', async () => {
    const { failure } = await world(status(429, {}, { 'retry-after': '2' }));
    expect((await failure()).retryAfterMs).toBe(2_000);
  });
});

test('an error body without end is cut and not waited for', async () => {
  const { failure } = await world(async (response) => {
    response.writeHead(500, { 'content-type': 'text/plain' });
    while (!response.destroyed)
      await new Promise<void>((resolve) => response.write('no '.repeat(10_000), () => resolve()));
  });
  const error = await failure();
  expect(error).toMatchObject({ kind: 'overloaded', status: 500 });
  expect(Buffer.byteLength(error.message)).toBeLessThanOrEqual(2_048);
});

describe('the API key', () => {
  test('a function is asked at every attempt', async () => {
    let count = 0;
    const { generate, server } = await world(
      chat(() => ({ text: 'ok' })),
      { apiKey: async () => `key-${++count}` },
    );
    await generate();
    await generate();
    expect(server.requests.map((raw) => raw.headers.authorization)).toEqual(['Bearer key-1', 'Bearer key-2']);
  });

  test('a lookup that hangs times out', async () => {
    const { failure } = await world(
      chat(() => ({ text: 'ok' })),
      { apiKey: () => new Promise(() => {}), startTimeoutMs: 50 },
    );
    expect((await failure()).kind).toBe('timeout');
  });
});

describe('answers that are no answers', () => {
  test('a stop for tools that names none is a fault of the provider that no retry repairs', async () => {
    const { failure } = await world(chat(() => ({ text: 'hm', finishReason: 'tool_calls' })));
    expect(await failure()).toMatchObject({ kind: 'overloaded', retryable: false, usage: { input: 100, output: 20 } });
  });

  test('refused content is an error of its own, and what it used is counted', async () => {
    const { failure } = await world(chat(() => ({ text: 'I wi', finishReason: 'content_filter' })));
    expect(await failure()).toMatchObject({ kind: 'content_filter', retryable: false, usage: { total: 120 } });
  });

  test('usage that came before a break is known to the error', async () => {
    const usage = { choices: [], usage: { prompt_tokens: 7, completion_tokens: 1 } };
    const { failure } = await world(stream(data(usage), hello));
    expect((await failure()).usage).toMatchObject({ input: 7, output: 1 });
  });
});
