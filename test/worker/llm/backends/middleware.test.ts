import { expect, test } from 'vitest';
import { FallbackChain } from '../../../../src/worker/llm/fallback-chain.ts';
import { LlmError } from '../../../../src/worker/llm/errors.ts';
import {
  withMiddleware,
  type Middleware,
  type MiddlewareKind,
} from '../../../../src/worker/llm/backends/middleware.ts';
import type { LlmProvider, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createScriptedProvider } from '../../../../src/worker/llm/backends/scripted.ts';
import { systemClock } from '../../../../src/shared/base/clock.ts';

const request: LlmRequest = {
  model: 'm',
  requestId: 'r',
  idempotencyKey: 'r',
  messages: [{ role: 'user', content: 'hi' }],
};
const never = new AbortController().signal;
const passing = (name: string, kind: MiddlewareKind, seen: string[] = []): Middleware => ({
  name,
  kind,
  async generate(asked, onPart, signal, next) {
    seen.push(`${name} before`);
    const answer = await next(asked, onPart, signal);
    seen.push(`${name} after`);
    return answer;
  },
});

test('the first middleware is the outermost', async () => {
  const seen: string[] = [];
  const provider = withMiddleware(
    createScriptedProvider(() => ({ text: 'ok' })),
    [passing('outer', 'observe', seen), passing('inner', 'redact', seen)],
  );
  await provider.generate(request, () => {}, never);
  expect(seen).toEqual(['outer before', 'inner before', 'inner after', 'outer after']);
});

test('a middleware sees each attempt of the chain once', async () => {
  let calls = 0;
  const flaky = createScriptedProvider(() => (++calls < 3 ? { error: { kind: 'overloaded' } } : { text: 'ok' }));
  const seen: string[] = [];
  const log: Middleware = {
    name: 'log',
    kind: 'observe',
    async generate(asked, onPart, signal, next) {
      try {
        const answer = await next(asked, onPart, signal);
        seen.push(answer.finishReason);
        return answer;
      } catch (error) {
        seen.push(error instanceof LlmError ? error.kind : 'other');
        throw error;
      }
    },
  };
  const clock = { ...systemClock, sleep: async () => {} };
  const chain = new FallbackChain(
    [{ provider: withMiddleware(flaky, [log]), model: 'm', maxAttempts: 4, backoff: 'linear' }],
    { clock, price: () => undefined },
  );
  const { attempts } = await chain.run(
    request,
    { step: 1, firstAttemptNumber: 1, onPart: () => {}, onAttempt: () => {} },
    never,
  );
  expect(attempts).toHaveLength(3);
  expect(seen).toEqual(['overloaded', 'overloaded', 'stop']);
});

test('a middleware may change what is asked and what is answered', async () => {
  const asked: LlmRequest[] = [];
  const provider = withMiddleware(
    createScriptedProvider((got) => {
      asked.push(got);
      return { text: 'my secret' };
    }),
    [
      {
        name: 'mask',
        kind: 'redact',
        generate: (got, onPart, signal, next) =>
          next(
            { ...got, temperature: 0 },
            (part) => onPart(part.type === 'text' ? { ...part, delta: '*' } : part),
            signal,
          ),
      },
    ],
  );
  const shown: string[] = [];
  await provider.generate(request, (part) => shown.push(part.type === 'text' ? part.delta : ''), never);
  expect(asked[0]?.temperature).toBe(0);
  expect(shown).toEqual(['*', '*']);
});

test('everything else of the provider stays as it is', () => {
  class Custom implements LlmProvider {
    readonly #rpm = 7;
    readonly id = 'custom';
    readonly capabilities = { tools: false, reasoning: false };
    readonly credential = 'abc';
    readonly acceptsSensitivity = ['public', 'internal'] as const;
    limitsOf() {
      return { requestsPerMinute: this.#rpm };
    }
    generate(): never {
      throw new Error('not called');
    }
  }
  const custom = new Custom();
  const wrapped = withMiddleware(custom, [passing('log', 'observe')]);
  expect(wrapped).toMatchObject({
    id: 'custom',
    capabilities: custom.capabilities,
    credential: 'abc',
    acceptsSensitivity: ['public', 'internal'],
  });
  expect(wrapped.limitsOf?.('m')).toEqual({ requestsPerMinute: 7 });
});

test.each<MiddlewareKind[][]>([[['redact', 'retry']], [['observe', 'retry', 'redact']], [['transform', 'cache']]])(
  'the order %j is unsafe and refused when it is made',
  (kinds) => {
    const order = kinds.map((kind, index) => passing(`m${index}`, kind));
    expect(() =>
      withMiddleware(
        createScriptedProvider(() => ({})),
        order,
      ),
    ).toThrow(expect.objectContaining({ code: 'middleware_order_violation' }));
  },
);

test('every mistake of an order is reported, with the order that is safe', () => {
  const order = [passing('mask', 'redact'), passing('log', 'observe'), passing('again', 'retry')];
  expect(() =>
    withMiddleware(
      createScriptedProvider(() => ({})),
      order,
    ),
  ).toThrow(
    expect.objectContaining({
      message: expect.stringContaining('retry, limit, cache, observe, transform, redact'),
      details: ['log (observe) must stand before mask (redact)', 'again (retry) must stand before log (observe)'],
    }),
  );
});

test('a safe order with several of a kind is fine', () => {
  const kinds: MiddlewareKind[] = ['retry', 'limit', 'cache', 'observe', 'observe', 'transform', 'redact'];
  const order = kinds.map((kind, index) => passing(`m${index}`, kind));
  expect(() =>
    withMiddleware(
      createScriptedProvider(() => ({})),
      order,
    ),
  ).not.toThrow();
});
