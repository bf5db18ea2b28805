import { expect, test } from 'vitest';
import type { ProviderLimits } from '../../../../src/shared/contract/limits.ts';
import type { Grant } from '../../../../src/shared/state/limits/rate/rate-limiter.ts';
import { inMemoryRateLimiter } from '../../../../src/worker/local/stores/in-memory-admission.ts';
import { aRequest, expectParked, granted, oneAtATime } from '../../../contract/rate-limiter.ts';
import { FakeClock } from '../../../../src/testing/fake-clock.ts';

function world() {
  const clock = new FakeClock();
  const limiter = inMemoryRateLimiter(clock);
  const call = (runId: string, limits: ProviderLimits): Promise<Grant> => granted(limiter, aRequest(runId, limits), 0);
  const parked = (runId: string, limits: ProviderLimits) => expectParked(limiter, aRequest(runId, limits));
  return { clock, limiter, call, parked };
}

test('no more calls are in flight than allowed, and a settled one makes room', async () => {
  const { limiter, call, parked } = world();
  const first = await call('a', oneAtATime);
  await parked('b', oneAtATime);
  await limiter.settle(first, {});
  expect(await call('b', oneAtATime)).toMatchObject({ tenant: 'acme', waitedMs: 0 });
});

test('a window holds no more requests and tokens than allowed, and counts what calls really used', async () => {
  const { clock, limiter, call, parked } = world();
  const limits = { requestsPerMinute: 2, tokensPerMinute: 500 };
  const first = await call('a', limits);
  await limiter.settle(first, { usedTokens: 400, outputTokens: 300 });
  await parked('b', limits);
  clock.jump(30_000);
  const small = aRequest('c', limits, { promptTokens: 10, maxOutputTokens: 10 });
  await granted(limiter, small, 0);
  expect(await expectParked(limiter, small)).toBe(30_000);
  clock.jump(30_000);
  await call('b', limits);
});

test('a call that was never sent leaves its place in the window', async () => {
  const { limiter, call, parked } = world();
  const limits = { requestsPerMinute: 1 };
  const first = await call('a', limits);
  await parked('b', limits);
  await limiter.settle(first, { unused: true });
  expect(await call('b', limits)).toMatchObject({ limiter: 'key:model' });
});

test('a call larger than a whole window is made when there is nothing else', async () => {
  const { call, parked } = world();
  const limits = { tokensPerMinute: 10 };
  expect((await call('a', limits)).tokens).toBeGreaterThan(10);
  await parked('b', limits);
});

test('a refusal keeps every run away for as long as the provider asks for, and at most a minute', async () => {
  const { clock, limiter, call, parked } = world();
  const [first, second] = [await call('a', {}), await call('b', {})];
  await limiter.settle(first, { limited: { retryAfterMs: 9_000 } });
  await limiter.settle(second, { limited: { retryAfterMs: 500 } });
  expect(await parked('c', {})).toBe(9_000);
  clock.jump(9_000);
  await limiter.settle(await call('c', {}), { limited: { retryAfterMs: 3_600_000 } });
  expect(await parked('d', {})).toBe(60_000);
  clock.jump(60_000);
  await limiter.settle(await call('d', {}), { limited: {} });
  expect(await parked('e', {})).toBe(1_000);
});

test('a call that waits goes on when there is room, and an abort ends the wait', async () => {
  const { clock, limiter, call } = world();
  const first = await call('a', oneAtATime);
  const waiting = granted(limiter, aRequest('b', oneAtATime), 60_000);
  const stop = new AbortController();
  const aborted = limiter.acquire(aRequest('c', oneAtATime), 60_000, stop.signal);
  stop.abort(new Error('enough'));
  await expect(aborted).rejects.toThrow('enough');
  await limiter.settle(first, {});
  clock.jump(50);
  expect(await waiting).toMatchObject({ waitedMs: 50 });
});
