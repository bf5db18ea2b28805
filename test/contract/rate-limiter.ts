import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { ProviderLimits } from '../../src/shared/contract/limits.ts';
import type { RateLimiter, Grant, GrantRequest } from '../../src/shared/state/limits/rate/rate-limiter.ts';
import type { RateLimiterObserver } from '../../src/shared/state/limits/rate/polled-limiter.ts';
import { until } from '../support/redis.ts';

export interface RateLimiterWorld {
  /** One more worker of the same fleet. */
  rateLimiter(observe?: RateLimiterObserver): Promise<RateLimiter>;
}

const never = new AbortController().signal;
/** Longer than a test: a caller that waits for so long instead of parking at once fails it. */
const longMs = 60_000;
export const oneAtATime: ProviderLimits = { maxInFlight: 1 };

export function aRequest(runId: string, limits: ProviderLimits, changes: Partial<GrantRequest> = {}): GrantRequest {
  const base = { limiter: 'key:model', tenant: 'acme', weight: 1, promptTokens: 100, maxOutputTokens: 100 };
  return { ...base, runId, limits, ...changes };
}

/** Acquires, and fails the test unless that is granted. */
export async function granted(
  rateLimiter: RateLimiter,
  request: GrantRequest,
  maxInlineWaitMs = 10_000,
): Promise<Grant> {
  const answer = await rateLimiter.acquire(request, maxInlineWaitMs, never);
  if (answer.kind !== 'granted') throw new Error(`${request.runId} was parked, expected ${answer.expectedMs} ms`);
  return answer.grant;
}

export async function expectParked(
  rateLimiter: RateLimiter,
  request: GrantRequest,
  maxInlineWaitMs = 0,
): Promise<number> {
  const answer = await rateLimiter.acquire(request, maxInlineWaitMs, never);
  expect(answer.kind).toBe('parked');
  return answer.kind === 'parked' ? answer.expectedMs : 0;
}

/** Waits like a run that releases its worker. */
export async function suspended(rateLimiter: RateLimiter, request: GrantRequest): Promise<void> {
  await expectParked(rateLimiter, request);
  await rateLimiter.park(request);
}

interface TimedCall {
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Grants a call and returns between which times that was. */
async function timed(rateLimiter: RateLimiter, request: GrantRequest): Promise<TimedCall> {
  const askedAt = performance.now();
  const grant = await granted(rateLimiter, request);
  return { notBefore: askedAt + grant.waitedMs, notAfter: performance.now() };
}

/** Any so many calls took longer than a window. */
function checkStretches(calls: readonly TimedCall[], count: number, windowMs: number): void {
  const inOrder = calls.toSorted((a, b) => a.notBefore - b.notBefore);
  const stretches = inOrder
    .slice(count - 1)
    .map(({ notAfter }, index) => notAfter - (inOrder[index] as TimedCall).notBefore);
  // Waits are reported in whole milliseconds.
  expect(Math.min(...stretches)).toBeGreaterThanOrEqual(windowMs - 2);
}

export async function dispatched(rateLimiter: RateLimiter): Promise<readonly string[]> {
  return await until('runs to wake', async () => {
    const runIds = await rateLimiter.dispatch();
    return runIds.length > 0 ? runIds : undefined;
  });
}

/**
 * Adds these to the wait queue one after the other behind a call that is under way, then lets one call happen after the other.
 * Answers in which order they had their turn.
 */
async function orderOf(rateLimiter: RateLimiter, requests: readonly GrantRequest[]): Promise<readonly string[]> {
  const first = await granted(rateLimiter, aRequest('first', oneAtATime, { tenant: 'first' }));
  const order: string[] = [];
  const turns = requests.map((request) => {
    const turn = granted(rateLimiter, request, longMs).then(async (grant) => {
      order.push(request.runId);
      await rateLimiter.settle(grant, { usedTokens: grant.tokens, outputTokens: grant.tokens - 100 });
    });
    return turn;
  });
  await rateLimiter.settle(first, {});
  await Promise.all(turns);
  return order;
}

/** What every rate limiter promises. */
export function rateLimiterContract(name: string, makeWorld: () => Promise<RateLimiterWorld>): void {
  describe(`${name} as a rateLimiter`, () => {
    test('without a known limit every call is granted', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const grants = await Promise.all(
        Array.from({ length: 50 }, (_, i) => granted(rateLimiter, aRequest(`r${i}`, {}), 0)),
      );
      expect(new Set(grants.map(({ id }) => id)).size).toBe(50);
      await Promise.all(grants.map((grant) => rateLimiter.settle(grant, { usedTokens: 5, outputTokens: 1 })));
    });

    test('no stretch of a window has more requests than allowed, whichever worker asks', async () => {
      const world = await makeWorld();
      const governors = await Promise.all([world.rateLimiter(), world.rateLimiter()]);
      // Ten per second.
      const limits = { requestsPerMinute: 600, windowMs: 1_000 };
      const calls = await Promise.all(
        Array.from({ length: 24 }, (_, i) => timed(governors[i % 2] as RateLimiter, aRequest(`r${i}`, limits))),
      );
      checkStretches(calls, 11, 1_000);
    });

    test('no stretch of a window has more tokens than allowed', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      // A thousand tokens per second; three calls of 400 do not fit into one.
      const limits = { tokensPerMinute: 60_000, windowMs: 1_000 };
      const changes = { promptTokens: 300, maxOutputTokens: 100 };
      const calls = await Promise.all(
        Array.from({ length: 6 }, (_, i) => timed(rateLimiter, aRequest(`r${i}`, limits, changes))),
      );
      checkStretches(calls, 3, 1_000);
    });

    test('no more calls are in flight than allowed, and a settled one makes room for the next', async () => {
      const world = await makeWorld();
      const [one, two] = await Promise.all([world.rateLimiter(), world.rateLimiter()]);
      const limits = { maxInFlight: 2 };
      const first = await granted(one, aRequest('a', limits));
      await granted(two, aRequest('b', limits));
      await expectParked(two, aRequest('c', limits), 50);
      const waiting = granted(two, aRequest('d', limits), longMs);
      await one.settle(first, { usedTokens: 10, outputTokens: 5 });
      expect(await waiting).toMatchObject({ limiter: 'key:model', tenant: 'acme' });
    });

    test('within a tenant it is first come, first served', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const runs = ['a', 'b', 'c', 'd', 'e'];
      expect(
        await orderOf(
          rateLimiter,
          runs.map((runId) => aRequest(runId, oneAtATime)),
        ),
      ).toEqual(runs);
    });

    test('between tenants the shares are equal by tokens, not by calls', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const small = Array.from({ length: 8 }, (_, i) => aRequest(`small${i}`, oneAtATime, { tenant: 'small' }));
      const large = Array.from({ length: 4 }, (_, i) =>
        aRequest(`large${i}`, oneAtATime, { tenant: 'large', promptTokens: 300 }),
      );
      const order = await orderOf(rateLimiter, [...large, ...small]);
      // Two calls of 200 tokens for one of 400.
      expect(order.slice(0, 6).filter((runId) => runId.startsWith('large'))).toHaveLength(2);
      expect(order.slice(0, 9).filter((runId) => runId.startsWith('large'))).toHaveLength(3);
    });

    test('a weight of two gives twice the share', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const of = (tenant: string, weight: number) =>
        Array.from({ length: 6 }, (_, i) => aRequest(`${tenant}${i}`, oneAtATime, { tenant, weight }));
      const order = await orderOf(rateLimiter, [...of('light', 1), ...of('heavy', 2)]);
      expect(order.slice(0, 9).filter((runId) => runId.startsWith('heavy'))).toHaveLength(6);
    });

    test('a late tenant does not wait for all waiters of a flooding tenant', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const flood = Array.from({ length: 20 }, (_, i) => aRequest(`flood${i}`, oneAtATime, { tenant: 'flood' }));
      const order = await orderOf(rateLimiter, [...flood, aRequest('late', oneAtATime, { tenant: 'small' })]);
      expect(order.indexOf('late')).toBeLessThan(2);
    });

    test('a wait that is sure to be too long parks at once', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const limits = { requestsPerMinute: 1 };
      await granted(rateLimiter, aRequest('a', limits));
      expect(await expectParked(rateLimiter, aRequest('b', limits), 15_000)).toBeGreaterThan(15_000);
    });

    test('parked runs are woken in order, each once, and find their turn waiting', async () => {
      const world = await makeWorld();
      const [one, two] = await Promise.all([world.rateLimiter(), world.rateLimiter()]);
      const first = await granted(one, aRequest('a', oneAtATime));
      const others = ['b', 'c'].map((runId) => aRequest(runId, oneAtATime));
      for (const request of others) await suspended(one, request);
      expect([await one.dispatch(), await two.dispatch()]).toEqual([[], []]);

      await one.settle(first, {});
      expect(await dispatched(two)).toEqual(['b']);
      expect([await one.dispatch(), await two.dispatch()]).toEqual([[], []]);
      // The turn of the woken run is its own: no other run can have it.
      await expectParked(one, aRequest('d', oneAtATime));
      const second = await granted(one, others[0] as GrantRequest, 0);
      await one.settle(second, {});
      expect(await dispatched(one)).toEqual(['c']);
    });

    test('a run that is woken too early keeps its position', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const first = await granted(rateLimiter, aRequest('a', oneAtATime));
      const [b, c] = [aRequest('b', oneAtATime), aRequest('c', oneAtATime)];
      await suspended(rateLimiter, b);
      await suspended(rateLimiter, c);
      await suspended(rateLimiter, b);
      await rateLimiter.settle(first, {});
      expect(await dispatched(rateLimiter)).toEqual(['b']);
    });

    test('to park twice is to park once, and a run whose wake-up got lost is woken again', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const first = await granted(rateLimiter, aRequest('a', oneAtATime));
      const [b, c] = [aRequest('b', oneAtATime), aRequest('c', oneAtATime)];
      await suspended(rateLimiter, b);
      await suspended(rateLimiter, c);
      await rateLimiter.park(b);
      await rateLimiter.settle(first, {});
      expect(await dispatched(rateLimiter)).toEqual(['b']);
      await rateLimiter.park(b);
      expect(await dispatched(rateLimiter)).toEqual(['b']);
      await rateLimiter.settle(await granted(rateLimiter, b, 0), {});
      expect(await dispatched(rateLimiter)).toEqual(['c']);
    });

    test('a run that left is not woken, and what was promised to it goes to the next', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const first = await granted(rateLimiter, aRequest('a', oneAtATime));
      for (const runId of ['b', 'c', 'd']) await suspended(rateLimiter, aRequest(runId, oneAtATime));
      await rateLimiter.leave('b');
      await rateLimiter.settle(first, {});
      expect(await dispatched(rateLimiter)).toEqual(['c']);
      await rateLimiter.leave('c');
      expect(await dispatched(rateLimiter)).toEqual(['d']);
    });

    test('an aborted wait rejects with the reason and leaves the queue', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const first = await granted(rateLimiter, aRequest('a', oneAtATime));
      const abort = new AbortController();
      const aborted = rateLimiter.acquire(aRequest('b', oneAtATime), longMs, abort.signal);
      const next = granted(rateLimiter, aRequest('c', oneAtATime), longMs);
      abort.abort(new Error('cancelled'));
      await expect(aborted).rejects.toThrow('cancelled');
      await rateLimiter.settle(first, {});
      expect((await next).id).not.toBe('');
      await expect(rateLimiter.acquire(aRequest('d', oneAtATime), 0, abort.signal)).rejects.toThrow('cancelled');
    });

    test('two calls of one run wait side by side', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const first = await granted(rateLimiter, aRequest('a', oneAtATime));
      const calls = [1, 2].map(async () =>
        rateLimiter.settle(await granted(rateLimiter, aRequest('b', oneAtATime)), {}),
      );
      await rateLimiter.settle(first, {});
      await Promise.all(calls);
      expect(await granted(rateLimiter, aRequest('c', oneAtATime), 0)).toMatchObject({ tenant: 'acme' });
    });

    test('a call that was never sent costs nothing', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const limits = { requestsPerMinute: 2, tokensPerMinute: 400 };
      for (let i = 0; i < 5; i++) {
        const grant = await granted(rateLimiter, aRequest(`r${i}`, limits), 0);
        expect(grant.tokens).toBe(200);
        await rateLimiter.settle(grant, { unused: true });
      }
    });

    test('tokens that were not used are given back', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      // Room for one estimate of 1,100 tokens, not for two.
      const limits = { tokensPerMinute: 2_000 };
      const request = (runId: string) => aRequest(runId, limits, { maxOutputTokens: 1_000 });
      const first = await granted(rateLimiter, request('a'));
      await expectParked(rateLimiter, request('b'), 15_000);
      await rateLimiter.settle(first, { usedTokens: 1 });
      expect((await granted(rateLimiter, request('c'), 15_000)).tokens).toBe(1_100);
    });

    test('what answers really have is learnt, and never expected beyond their bound', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const limits = { tokensPerMinute: 10_000_000 };
      const request = (changes: Partial<GrantRequest>) => aRequest(randomUUID(), limits, changes);
      const guess = await granted(rateLimiter, request({ maxOutputTokens: 50_000 }));
      expect(guess.tokens).toBe(100 + 1_024);
      await rateLimiter.settle(guess, { usedTokens: 300, outputTokens: 200 });
      expect((await granted(rateLimiter, request({ maxOutputTokens: 50_000 }))).tokens).toBeCloseTo(300, -1);
      expect((await granted(rateLimiter, request({ maxOutputTokens: 20 }))).tokens).toBeLessThan(200);
    });

    test('a call larger than a whole window gets through when there is nothing else', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const limits = { tokensPerMinute: 100 };
      const grant = await granted(rateLimiter, aRequest('a', limits, { promptTokens: 5_000 }), 0);
      expect(grant.tokens).toBeGreaterThan(5_000);
      await expectParked(rateLimiter, aRequest('b', limits), 15_000);
    });

    test('one refusal cools the whole fleet for as long as the provider asks for', async () => {
      const world = await makeWorld();
      const cooled: number[] = [];
      const one = await world.rateLimiter({ cooled: (_, ms) => cooled.push(ms) });
      const two = await world.rateLimiter();
      const limits = { requestsPerMinute: 60_000 };
      await one.settle(await granted(one, aRequest('a', limits)), { limited: { retryAfterMs: 40_000 } });
      const expectedMs = await expectParked(two, aRequest('b', limits), 15_000);
      expect(expectedMs).toBeGreaterThan(30_000);
      expect(expectedMs).toBeLessThanOrEqual(40_000);
      expect(cooled).toEqual([40_000]);
      await two.park(aRequest('b', limits));
      expect(await two.dispatch()).toEqual([]);
    });

    test('a cooldown ends, never lasts longer than a minute, and grows when no time is given', async () => {
      const cooled: number[] = [];
      const rateLimiter = await (await makeWorld()).rateLimiter({ cooled: (_, ms) => cooled.push(ms) });
      const limits = { requestsPerMinute: 60_000 };
      const refused = async (limited: { retryAfterMs?: number }) =>
        rateLimiter.settle(await granted(rateLimiter, aRequest(randomUUID(), limits)), { limited });
      await refused({ retryAfterMs: 300 });
      await refused({});
      await refused({ retryAfterMs: 86_400_000 });
      expect(cooled).toEqual([300, 2_000, 60_000]);
    });

    test('refusals of calls that were under way together are one cooldown', async () => {
      const cooled: number[] = [];
      const rateLimiter = await (await makeWorld()).rateLimiter({ cooled: (_, ms) => cooled.push(ms) });
      const limits = { requestsPerMinute: 60_000 };
      const grants = await Promise.all(
        Array.from({ length: 5 }, (_, i) => granted(rateLimiter, aRequest(`r${i}`, limits))),
      );
      for (const grant of grants) await rateLimiter.settle(grant, { limited: { retryAfterMs: 400 } });
      await rateLimiter.settle(await granted(rateLimiter, aRequest('next', limits)), { limited: {} });
      expect(cooled).toEqual([400, 2_000]);
    });

    test('a limit that is not configured is learnt from what the provider reports', async () => {
      const world = await makeWorld();
      const learnt: ProviderLimits[] = [];
      const one = await world.rateLimiter({ learnt: (_, limits) => learnt.push(limits) });
      const two = await world.rateLimiter();
      const report = { requests: { limit: 2, remaining: 1 }, tokens: { limit: 90_000, remaining: 90_000 } };
      await one.settle(await granted(one, aRequest('a', {})), { report, usedTokens: 100, outputTokens: 10 });
      expect(learnt).toEqual([{ requestsPerMinute: 2, tokensPerMinute: 90_000 }]);
      // One of two is used, and they are spread over the minute.
      await granted(two, aRequest('b', {}));
      await expectParked(one, aRequest('c', {}), 10_000);
    });

    test('a provider without words teaches a rate by refusing', async () => {
      const learnt: ProviderLimits[] = [];
      const rateLimiter = await (await makeWorld()).rateLimiter({ learnt: (_, limits) => learnt.push(limits) });
      const grants = await Promise.all(
        Array.from({ length: 20 }, (_, i) => granted(rateLimiter, aRequest(`r${i}`, {}))),
      );
      for (const grant of grants.slice(0, 19)) await rateLimiter.settle(grant, {});
      await rateLimiter.settle(grants[19] as Grant, { limited: { retryAfterMs: 250 } });
      const { requestsPerMinute } = learnt[0] as ProviderLimits;
      // Twenty within some seconds are at most as many per ten seconds.
      expect(requestsPerMinute).toBeGreaterThanOrEqual(10);
      expect(requestsPerMinute).toBeLessThan(120);
      await granted(rateLimiter, aRequest('next', {}));
    });

    test('nothing left pauses the fleet until the reset', async () => {
      const world = await makeWorld();
      const [one, two] = await Promise.all([world.rateLimiter(), world.rateLimiter()]);
      const limits = { requestsPerMinute: 100 };
      const report = { requests: { limit: 100, remaining: 0, resetMs: 30_000 } };
      await one.settle(await granted(one, aRequest('a', limits)), { report });
      expect(await expectParked(two, aRequest('b', limits), 15_000)).toBeGreaterThan(20_000);
    });

    test('what others use of the same credential is missing here too', async () => {
      const rateLimiter = await (await makeWorld()).rateLimiter();
      const limits = { requestsPerMinute: 100 };
      const report = { requests: { limit: 100, remaining: 1 } };
      await rateLimiter.settle(await granted(rateLimiter, aRequest('a', limits)), { report });
      await granted(rateLimiter, aRequest('b', limits));
      expect(await expectParked(rateLimiter, aRequest('c', limits), 100)).toBeGreaterThanOrEqual(0);
    });
  });
}
