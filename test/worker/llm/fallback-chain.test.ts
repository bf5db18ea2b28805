import { describe, expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { Message } from '../../../src/shared/contract/message.ts';
import { LlmError, type LlmErrorKind } from '../../../src/worker/llm/errors.ts';
import type { AttemptEnd, ChainCall, Permit, PlannedAttempt } from '../../../src/worker/llm/chain-call.ts';
import { FallbackChain } from '../../../src/worker/llm/fallback-chain.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { answer, entry, fake, fakeClock, price, usage, world, type Outcome } from './chain-world.ts';

describe('one candidate', () => {
  test('failures that may pass are retried with growing waits, and every attempt is reported with its cost', async () => {
    const { provider, requests } = fake('a', ['overloaded', 'rate_limit', 'timeout', 'ok']);
    const { run, seen, clock } = world([entry(provider, 'm', 4)]);
    const result = await run({}, { firstAttemptNumber: 5, step: 2 });
    expect(clock.sleeps).toEqual([250, 500, 1_000]);
    expect(result).toMatchObject({ answer, provider: 'a', model: 'm' });
    expect(result.attempts).toEqual(seen.map(({ attempt }) => attempt));
    expect(
      seen.map(({ attempt }) => [
        attempt.attemptNumber,
        attempt.step,
        attempt.outcome,
        attempt.costMicrocents,
        attempt.priced,
      ]),
    ).toEqual([
      [5, 2, 'failed', 0, true],
      [6, 2, 'failed', 0, true],
      [7, 2, 'failed', 0, true],
      [8, 2, 'succeeded', 300, true],
    ]);
    expect(seen[0]?.attempt.error).toEqual({ kind: 'overloaded', message: 'a fails' });
    expect(seen.map(({ next }) => next && [next.attemptNumber, next.delayMs, next.error.kind])).toEqual([
      [6, 250, 'overloaded'],
      [7, 500, 'rate_limit'],
      [8, 1_000, 'timeout'],
      undefined,
    ]);
    expect(
      new Set(requests.map((request) => `${request.idempotencyKey} ${request.requestId} ${request.model}`)).size,
    ).toBe(1);
  });

  test('the last error comes out when the attempts are used up', async () => {
    const { provider, requests } = fake('a', ['overloaded', 'transport']);
    const { run, seen } = world([entry(provider, 'm', 2)]);
    await expect(run()).rejects.toMatchObject({ kind: 'transport', retryable: true });
    expect(requests).toHaveLength(2);
    expect(seen.at(-1)?.next).toBeUndefined();
  });

  test('the wait that the provider asked for is kept', async () => {
    const limited = async () => {
      throw new LlmError('rate_limit', 'a', 'slow down', { retryAfterMs: 5_000 });
    };
    const { run, clock } = world([entry(fake('a', [limited, 'ok']).provider)]);
    await run();
    expect(clock.sleeps).toEqual([5_000]);
  });

  test('what a failed attempt used is priced', async () => {
    const refused = async () => {
      throw new LlmError('content_filter', 'a', 'no', { usage });
    };
    const { run, seen } = world([entry(fake('a', [refused]).provider)]);
    await expect(run()).rejects.toMatchObject({ kind: 'content_filter' });
    expect(seen[0]?.attempt).toMatchObject({ outcome: 'failed', usage, costMicrocents: 300, priced: true });
  });

  test('an unknown price costs nothing and says so', async () => {
    const { run, seen } = world([entry(fake('a', ['ok']).provider)], { price: () => undefined });
    await run();
    expect(seen[0]?.attempt).toMatchObject({ usage, costMicrocents: 0, priced: false });
  });

  test('nothing is tried again once a part was shown', async () => {
    const broken: Outcome = async (_, onPart) => {
      onPart({ type: 'text', delta: 'Hel' });
      throw new LlmError('transport', 'a', 'reset');
    };
    const a = fake('a', [broken, 'ok']);
    const b = fake('b', ['ok']);
    const { run, emitted } = world([entry(a.provider), entry(b.provider)]);
    await expect(run()).rejects.toMatchObject({ kind: 'transport' });
    expect([a.requests.length, b.requests.length]).toEqual([1, 0]);
    expect(emitted).toEqual([{ part: { type: 'text', delta: 'Hel' }, model: 'model-a' }]);
  });

  test('what is no model error is of unknown kind, and a run error passes as it is', async () => {
    const crash = async () => Promise.reject(new TypeError('x is not a function'));
    const broken = world([entry(fake('a', [crash]).provider)]);
    await expect(broken.run()).rejects.toMatchObject({ kind: 'unknown', cause: expect.any(TypeError) });
    const guarded = async () => Promise.reject(new RunError('guardrail_blocked', 'no'));
    const blocked = world([entry(fake('a', [guarded]).provider)]);
    await expect(blocked.run()).rejects.toMatchObject({ code: 'guardrail_blocked' });
    expect(blocked.seen).toHaveLength(1);
  });

  test('a check before the attempt stops it without a trace', async () => {
    const { provider, requests } = fake('a', ['ok']);
    const { run, seen } = world([entry(provider, 'm')]);
    const asked: unknown[] = [];
    const admit = async ({ provider: { id }, request, attemptNumber }: PlannedAttempt): Promise<Permit> => {
      asked.push(id, request.model, attemptNumber);
      throw new RunError('budget_exceeded', 'too dear');
    };
    await expect(run({}, { admit })).rejects.toMatchObject({ code: 'budget_exceeded' });
    expect(asked).toEqual(['a', 'm', 1]);
    expect([requests.length, seen.length]).toEqual([0, 0]);
  });
});

describe('several candidates', () => {
  test.each<[LlmErrorKind, number, number]>([
    ['rate_limit', 2, 1],
    ['overloaded', 2, 1],
    ['timeout', 2, 1],
    ['transport', 2, 1],
    ['context_length', 1, 1],
    ['auth', 1, 0],
    ['bad_request', 1, 0],
    ['content_filter', 1, 0],
    ['unknown', 1, 0],
    ['cancelled', 1, 0],
  ])('%s makes %i requests to the first and %i to the second', async (kind, first, second) => {
    const a = fake('a', [kind, kind]);
    const b = fake('b', ['ok']);
    const { run } = world([entry(a.provider, 'm', 2), entry(b.provider, 'n', 2)]);
    await run().catch(() => {});
    expect([a.requests.length, b.requests.length]).toEqual([first, second]);
  });

  test('a refused length is made shorter once, on the same model, with the number that follows', async () => {
    const a = fake('a', ['context_length', 'context_length']);
    const b = fake('b', ['ok']);
    const { run, seen } = world([entry(a.provider, 'm', 1), entry(b.provider, 'n', 1)]);
    let asked = 0;
    const shorten: ChainCall['shorten'] = async () => {
      expect(seen).toHaveLength(++asked);
      return { request: { requestId: 'r', idempotencyKey: 'r', messages: [] }, attemptNumber: 5 };
    };
    const { attempts } = await run({}, { shorten });
    expect(a.requests.map(({ messages }) => messages.length)).toEqual([1, 0]);
    expect(b.requests.map(({ messages }) => messages.length)).toEqual([0]);
    expect(asked).toBe(1);
    expect(attempts.map(({ attemptNumber }) => attemptNumber)).toEqual([1, 5, 6]);
    expect(seen.map(({ attempt }) => attempt)).toEqual(attempts);
  });

  test('a failure that no retry repairs goes on at once', async () => {
    const quota: Outcome = async () => Promise.reject(new LlmError('rate_limit', 'a', 'quota', { retryable: false }));
    const a = fake('a', [quota]);
    const { run, clock } = world([entry(a.provider), entry(fake('b', ['ok']).provider)]);
    expect((await run()).provider).toBe('b');
    expect(clock.sleeps).toEqual([]);
  });

  test.each<[LlmErrorKind, string]>([
    ['rate_limit', 'rate-limit'],
    ['overloaded', 'capacity'],
    ['context_length', 'context-length'],
    ['timeout', 'transient'],
    ['transport', 'transient'],
  ])('going on after %s is emitted as %s, before the next model speaks', async (kind, reason) => {
    const speaks: Outcome = async (_, onPart) => {
      onPart({ type: 'text', delta: 'ok' });
      return answer;
    };
    const { run, emitted, seen } = world([
      entry(fake('a', [kind]).provider, 'm', 1),
      entry(fake('b', [speaks]).provider, 'n'),
    ]);
    await run({}, { step: 3 });
    expect(emitted).toEqual([
      { from: 'm', to: 'n', previousModel: 'm', nextModel: 'n', reason, stepNumber: 3, attempt: 2 },
      { part: { type: 'text', delta: 'ok' }, model: 'n' },
    ]);
    expect(seen[0]?.next).toMatchObject({ attemptNumber: 2, provider: 'b', model: 'n', delayMs: 0 });
  });

  test('a candidate without tools is skipped when there are tools, without taking a number', async () => {
    const a = fake('a', ['ok'], { tools: false, reasoning: true });
    const b = fake('b', ['ok']);
    const { run, seen, emitted } = world([entry(a.provider), entry(b.provider)]);
    const result = await run({ tools: [{ name: 't', description: '', parameters: {} }] });
    expect(a.requests).toHaveLength(0);
    expect(seen.map(({ attempt }) => [attempt.attemptNumber, attempt.outcome, attempt.skipReason])).toEqual([
      [1, 'skipped', 'no_tools'],
      [1, 'succeeded', undefined],
    ]);
    expect(result.attempts).toHaveLength(2);
    expect(emitted).toEqual([]);
  });

  test('when every candidate is skipped the step fails and nothing is sent', async () => {
    const a = fake('a', ['ok'], { tools: false, reasoning: true });
    const { run } = world([entry(a.provider)]);
    await expect(run({ tools: [{ name: 't', description: '', parameters: {} }] })).rejects.toMatchObject({
      kind: 'unknown',
    });
    expect(a.requests).toHaveLength(0);
  });

  test('a failure is final when only candidates that must be skipped are left', async () => {
    const b = fake('b', ['ok'], { tools: false, reasoning: true });
    const { run, seen } = world([entry(fake('a', ['overloaded']).provider, 'm', 1), entry(b.provider)]);
    await expect(run({ tools: [{ name: 't', description: '', parameters: {} }] })).rejects.toMatchObject({
      kind: 'overloaded',
    });
    expect(seen[0]?.next).toBeUndefined();
  });

  test('another provider gets none of the reasoning, and later only its own', async () => {
    const a = fake('a', ['overloaded', 'ok']);
    const b = fake('b', ['ok', 'ok']);
    const { run } = world([entry(a.provider, 'm', 1), entry(b.provider)]);
    const reply = (provider: string): Message => ({
      role: 'assistant',
      parts: [
        { type: 'reasoning', text: 'hm', provider },
        { type: 'text', text: provider },
      ],
    });
    const ask: Message = { role: 'user', content: 'hi' };
    await run({ messages: [ask, reply('a'), reply('b'), ask] });
    const providersIn = (request: LlmRequest | undefined) =>
      request?.messages
        .flatMap((message) => (message.role === 'assistant' ? message.parts : []))
        .flatMap((part) => (part.type === 'reasoning' ? [part.provider] : []));
    expect(providersIn(a.requests[0])).toEqual(['a']);
    expect(providersIn(b.requests[0])).toEqual([]);
    const only = world([entry(b.provider)]);
    await only.run({ messages: [ask, reply('a'), reply('b'), ask] });
    expect(providersIn(b.requests[1])).toEqual(['b']);
  });

  test('a provider without reasoning is not asked for effort', async () => {
    const a = fake('a', ['ok'], { tools: true, reasoning: false });
    const b = fake('b', ['ok']);
    await world([entry(a.provider)]).run({ reasoningEffort: 'high' });
    await world([entry(b.provider)]).run({ reasoningEffort: 'high' });
    expect([a.requests[0]?.reasoningEffort, b.requests[0]?.reasoningEffort]).toEqual([undefined, 'high']);
  });
});

describe('refused credentials', () => {
  const renewing = (answers: boolean) => {
    const asked: string[] = [];
    const onAuthError = async (provider: string) => {
      asked.push(provider);
      return answers;
    };
    return { asked, onAuthError };
  };

  test('renewed ones grant one more attempt, even as the last of the plan', async () => {
    const { asked, onAuthError } = renewing(true);
    const a = fake('a', ['auth', 'ok']);
    const { run, clock } = world([entry(a.provider, 'm', 1)], { onAuthError });
    expect((await run()).attempts).toHaveLength(2);
    expect(asked).toEqual(['a']);
    expect(clock.sleeps).toEqual([]);
  });

  test('the granted attempt comes on top of the planned ones', async () => {
    const a = fake('a', ['auth', 'overloaded', 'overloaded', 'ok']);
    await expect(world([entry(a.provider, 'm', 2)], renewing(true)).run()).rejects.toMatchObject({
      kind: 'overloaded',
    });
    expect(a.requests).toHaveLength(3);
  });

  test('they are renewed once and not over and over', async () => {
    const { asked, onAuthError } = renewing(true);
    const a = fake('a', ['auth', 'auth', 'ok']);
    const { run } = world([entry(a.provider, 'm', 5)], { onAuthError });
    await expect(run()).rejects.toMatchObject({ kind: 'auth' });
    expect([asked.length, a.requests.length]).toEqual([1, 2]);
  });

  test.each([
    ['that says no', renewing(false).onAuthError],
    ['that throws', () => Promise.reject(new Error('vault is down'))],
  ])('a renewal %s leaves the refusal final', async (_, onAuthError) => {
    const a = fake('a', ['auth', 'ok']);
    await expect(world([entry(a.provider)], { onAuthError }).run()).rejects.toMatchObject({ kind: 'auth' });
    expect(a.requests).toHaveLength(1);
  });
});

describe('cancelling', () => {
  test('an abort during a wait ends it at once', async () => {
    const cancel = new AbortController();
    const a = fake('a', ['overloaded', 'ok']);
    const chain = new FallbackChain([entry(a.provider)], {
      price: () => price,
      clock: {
        now: Date.now,
        monotonic: () => performance.now(),
        sleep: (_, signal) =>
          new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason))),
      },
    });
    const onAttempt = () => void Promise.resolve().then(() => cancel.abort());
    const call = chain.run(
      { requestId: 'r', idempotencyKey: 'r', messages: [] },
      { step: 1, firstAttemptNumber: 1, onPart() {}, onAttempt },
      cancel.signal,
    );
    await expect(call).rejects.toMatchObject({ kind: 'cancelled' });
    expect(a.requests).toHaveLength(1);
  });

  test('nothing is sent when the signal is aborted, also by the check before the attempt', async () => {
    const a = fake('a', ['ok']);
    await expect(world([entry(a.provider)]).run({}, {}, AbortSignal.abort())).rejects.toMatchObject({
      kind: 'cancelled',
    });
    const cancel = new AbortController();
    const unasked = async () => expect.unreachable();
    const aborted = world([entry(a.provider)]).run({}, { admit: unasked }, AbortSignal.abort());
    await expect(aborted).rejects.toMatchObject({ kind: 'cancelled' });
    const ends: AttemptEnd[] = [];
    const admit = async (): Promise<Permit> => {
      cancel.abort();
      return { kind: 'go', settle: async (end) => void ends.push(end) };
    };
    await expect(world([entry(a.provider)]).run({}, { admit }, cancel.signal)).rejects.toMatchObject({
      kind: 'cancelled',
    });
    expect(ends).toMatchObject([{ costMicrocents: 0, error: { kind: 'cancelled' } }]);
    expect(a.requests).toHaveLength(0);
  });

  test('an answer that comes after the abort is none, but what it used is counted', async () => {
    const cancel = new AbortController();
    const late: Outcome = async () => {
      cancel.abort();
      return answer;
    };
    const { run, seen } = world([entry(fake('a', [late]).provider)]);
    await expect(run({}, {}, cancel.signal)).rejects.toMatchObject({ kind: 'cancelled' });
    expect(seen.map(({ attempt }) => [attempt.outcome, attempt.error?.kind, attempt.costMicrocents])).toEqual([
      ['failed', 'cancelled', 300],
    ]);
  });

  test('whatever a provider throws after an abort is a cancellation', async () => {
    const cancel = new AbortController();
    const late: Outcome = async () => {
      cancel.abort();
      throw new LlmError('transport', 'a', 'terminated');
    };
    const { run, seen } = world([entry(fake('a', [late, 'ok']).provider)]);
    await expect(run({}, {}, cancel.signal)).rejects.toMatchObject({ kind: 'cancelled' });
    expect(seen.map(({ attempt, next }) => [attempt.error?.kind, next])).toEqual([['cancelled', undefined]]);
  });
});

describe('the plan', () => {
  const deps = { clock: fakeClock(), price: () => price };

  test('an empty plan and attempts that are not a whole number of at least 1 are refused', () => {
    const { provider } = fake('a', []);
    for (const candidates of [
      [],
      [entry(provider, 'm', 0)],
      [entry(provider, 'm', 1.5)],
      [entry(provider, 'm', Number.NaN)],
      [entry(provider), entry(provider, 'm', -1)],
    ]) {
      expect(() => new FallbackChain(candidates, deps)).toThrow(expect.objectContaining({ code: 'invalid_config' }));
    }
  });

  test('a chain serves one call at a time and is free again after a failure', async () => {
    const { provider } = fake('a', ['bad_request', 'ok']);
    const { run } = world([entry(provider)]);
    const first = run();
    await expect(run()).rejects.toMatchObject({ code: 'concurrent_run' });
    await expect(first).rejects.toMatchObject({ kind: 'bad_request' });
    expect((await run()).provider).toBe('a');
  });
});
