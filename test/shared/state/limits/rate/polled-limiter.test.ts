import { expect, onTestFinished, test } from 'vitest';
import { systemClock, type Clock } from '../../../../../src/shared/base/clock.ts';
import { PolledRateLimiter } from '../../../../../src/shared/state/limits/rate/polled-limiter.ts';
import type { LimiterAnswer, Limiters } from '../../../../../src/shared/state/limits/rate/limiters.ts';
import { aRequest } from '../../../../contract/rate-limiter.ts';
import { until } from '../../../../support/redis.ts';

const waiting: LimiterAnswer = { kind: 'waiting', retryMs: 1 };
const grant: LimiterAnswer = { kind: 'granted', tokens: 5, waitedMs: 7 };
const never = new AbortController().signal;
const nothing = { cooldownMs: 0, requestsPerMinute: 0, tokensPerMinute: 0, requestsPerWindow: 0 };

/** A rate limiter over limiters that answer as given, and what they were asked. */
function scripted(changes: Partial<Limiters>, clock: Clock = systemClock) {
  const calls: string[] = [];
  const noted =
    <A extends unknown[], R>(name: string, answer: (...args: A) => Promise<R>) =>
    (...args: A) => {
      calls.push(name);
      return answer(...args);
    };
  const limiters: Limiters = {
    ask: noted('ask', changes.ask ?? (async () => waiting)),
    poll: noted(
      'poll',
      changes.poll ?? (async (_l, _c, waiters) => ({ retryMs: 1, answers: waiters.map(() => waiting) })),
    ),
    stepAway: noted('stepAway', changes.stepAway ?? (async () => ({ kind: 'parked', expectedMs: 9 }))),
    park: noted('park', async () => {}),
    leave: noted('leave', async () => {}),
    settle: noted('settle', changes.settle ?? (async () => nothing)),
    dispatch: noted('dispatch', async () => new Map()),
  };
  const rateLimiter = new PolledRateLimiter({ limiters, clock });
  onTestFinished(() => rateLimiter[Symbol.asyncDispose]());
  return { rateLimiter, calls };
}

test('a wait that the limiter forgot is asked for again', async () => {
  const answers: LimiterAnswer[] = [waiting, grant];
  const { rateLimiter, calls } = scripted({
    ask: async () => answers.shift() as LimiterAnswer,
    poll: async () => ({ retryMs: 1, answers: [{ kind: 'unknown' }] }),
  });
  const answer = await rateLimiter.acquire(aRequest('a', { maxInFlight: 1 }), 5_000, never);
  expect(answer).toMatchObject({ kind: 'granted', grant: { tokens: 5, waitedMs: 7 } });
  expect(calls).toEqual(['ask', 'poll', 'ask']);
});

test('a poll that fails is tried again', async () => {
  let polls = 0;
  const { rateLimiter } = scripted({
    poll: async () => {
      if (++polls < 3) throw new Error('away');
      return { retryMs: 1, answers: [grant] };
    },
  });
  const answer = await rateLimiter.acquire(aRequest('a', { maxInFlight: 1 }), 5_000, never);
  expect(answer.kind).toBe('granted');
});

test('a grant that comes at the end of the wait is taken', async () => {
  const { rateLimiter } = scripted({ stepAway: async () => grant });
  const answer = await rateLimiter.acquire(aRequest('a', { maxInFlight: 1 }), 0, never);
  expect(answer.kind).toBe('granted');
});

test('a grant that comes after an abort is given back', async () => {
  const asked = Promise.withResolvers<LimiterAnswer>();
  const settled = Promise.withResolvers<unknown>();
  const { rateLimiter } = scripted({
    ask: () => asked.promise,
    async settle(_limiter, _limits, _about, outcome) {
      settled.resolve(outcome);
      return nothing;
    },
  });
  const abort = new AbortController();
  const answer = rateLimiter.acquire(aRequest('a', { maxInFlight: 1 }), 5_000, abort.signal);
  abort.abort(new Error('cancelled'));
  await expect(answer).rejects.toThrow('cancelled');
  asked.resolve(grant);
  expect(await settled.promise).toEqual({ unused: true });
});

test('grants are renewed while a call waits', async () => {
  let ahead = 0;
  const clock: Clock = { ...systemClock, monotonic: () => performance.now() + ahead };
  const renewed: string[] = [];
  const answers: LimiterAnswer[] = [grant, waiting];
  const { rateLimiter } = scripted(
    {
      ask: async () => answers.shift() as LimiterAnswer,
      async poll(_limiter, _limits, waiters, grantIds) {
        renewed.push(...grantIds);
        return { retryMs: 1, answers: waiters.map(() => waiting) };
      },
    },
    clock,
  );
  const limits = { maxInFlight: 1 };
  const granted = await rateLimiter.acquire(aRequest('a', limits), 5_000, never);
  if (granted.kind !== 'granted') throw new Error('not granted');
  const end = new AbortController();
  const blocked = rateLimiter.acquire(aRequest('b', limits), 1_000_000, end.signal);
  await until('a first renewal', () => renewed.length > 0 || (ahead += 16_000) === 0);
  const before = renewed.length;
  ahead += 16_000;
  await until('another renewal', () => renewed.length > before);
  expect(new Set(renewed)).toEqual(new Set([granted.grant.id]));
  end.abort(new Error('over'));
  await expect(blocked).rejects.toThrow('over');
});
