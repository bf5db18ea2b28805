import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { ProviderLimits } from '../../src/shared/contract/limits.ts';
import type { Governor, Grant, GrantRequest } from '../../src/shared/state/limits/rate/rate-limiter.ts';
import type { GovernorObserver } from '../../src/shared/state/limits/rate/polled-limiter.ts';
import { until } from '../support/redis.ts';

export interface GovernorWorld {
  /** One more worker of the same fleet. */
  governor(observe?: GovernorObserver): Promise<Governor>;
}

const never = new AbortController().signal;
/** Longer than a test: whoever waits for so long instead of parking at once fails it. */
const longMs = 60_000;
export const oneAtATime: ProviderLimits = { maxInFlight: 1 };

export function aRequest(runId: string, limits: ProviderLimits, changes: Partial<GrantRequest> = {}): GrantRequest {
  const base = { limiter: 'key:model', tenant: 'acme', weight: 1, promptTokens: 100, maxOutputTokens: 100 };
  return { ...base, runId, limits, ...changes };
}

/** Acquires, and fails the test unless that is granted. */
export async function granted(governor: Governor, request: GrantRequest, patienceMs = 10_000): Promise<Grant> {
  const answer = await governor.acquire(request, patienceMs, never);
  if (answer.kind !== 'granted') throw new Error(`${request.runId} was parked, expected ${answer.expectedMs} ms`);
  return answer.grant;
}

export async function expectParked(governor: Governor, request: GrantRequest, patienceMs = 0): Promise<number> {
  const answer = await governor.acquire(request, patienceMs, never);
  expect(answer.kind).toBe('parked');
  return answer.kind === 'parked' ? answer.expectedMs : 0;
}

/** Waits like a run that lets go of its worker. */
export async function suspended(governor: Governor, request: GrantRequest): Promise<void> {
  await expectParked(governor, request);
  await governor.park(request);
}

interface TimedCall {
  readonly notBefore: number;
  readonly notAfter: number;
}

/** Grants a call and says between which times that was. */
async function timed(governor: Governor, request: GrantRequest): Promise<TimedCall> {
  const askedAt = performance.now();
  const grant = await granted(governor, request);
  return { notBefore: askedAt + grant.waitedMs, notAfter: performance.now() };
}

/** Any so many calls took longer than a window. */
function checkStretches(calls: readonly TimedCall[], count: number, windowMs: number): void {
  const inOrder = calls.toSorted((a, b) => a.notBefore - b.notBefore);
  const stretches = inOrder
    .slice(count - 1)
    .map(({ notAfter }, index) => notAfter - (inOrder[index] as TimedCall).notBefore);
  // Waits are told in whole milliseconds.
  expect(Math.min(...stretches)).toBeGreaterThanOrEqual(windowMs - 2);
}

export async function pumped(governor: Governor): Promise<readonly string[]> {
  return await until('runs to wake', async () => {
    const runIds = await governor.pump();
    return runIds.length > 0 ? runIds : undefined;
  });
}

/**
 * Puts these in line one after the other behind a call that is under way, then lets one call happen after the other.
 * Answers in which order they had their turn.
 */
async function orderOf(governor: Governor, requests: readonly GrantRequest[]): Promise<readonly string[]> {
  const first = await granted(governor, aRequest('first', oneAtATime, { tenant: 'first' }));
  const order: string[] = [];
  const turns = requests.map((request) => {
    const turn = granted(governor, request, longMs).then(async (grant) => {
      order.push(request.runId);
      await governor.settle(grant, { usedTokens: grant.tokens, outputTokens: grant.tokens - 100 });
    });
    return turn;
  });
  await governor.settle(first, {});
  await Promise.all(turns);
  return order;
}

/** What every governor promises. */
export function governorContract(name: string, makeWorld: () => Promise<GovernorWorld>): void {
  describe(`${name} as a governor`, () => {
    test('without a known limit every call is granted', async () => {
      const governor = await (await makeWorld()).governor();
      const grants = await Promise.all(
        Array.from({ length: 50 }, (_, i) => granted(governor, aRequest(`r${i}`, {}), 0)),
      );
      expect(new Set(grants.map(({ id }) => id)).size).toBe(50);
      await Promise.all(grants.map((grant) => governor.settle(grant, { usedTokens: 5, outputTokens: 1 })));
    });

    test('no stretch of a window holds more requests than allowed, whichever worker asks', async () => {
      const world = await makeWorld();
      const governors = await Promise.all([world.governor(), world.governor()]);
      // Ten per second.
      const limits = { requestsPerMinute: 600, windowMs: 1_000 };
      const calls = await Promise.all(
        Array.from({ length: 24 }, (_, i) => timed(governors[i % 2] as Governor, aRequest(`r${i}`, limits))),
      );
      checkStretches(calls, 11, 1_000);
    });

    test('no stretch of a window holds more tokens than allowed', async () => {
      const governor = await (await makeWorld()).governor();
      // A thousand tokens per second; three calls of 400 do not fit into one.
      const limits = { tokensPerMinute: 60_000, windowMs: 1_000 };
      const changes = { promptTokens: 300, maxOutputTokens: 100 };
      const calls = await Promise.all(
        Array.from({ length: 6 }, (_, i) => timed(governor, aRequest(`r${i}`, limits, changes))),
      );
      checkStretches(calls, 3, 1_000);
    });

    test('no more calls are in flight than allowed, and a settled one makes room for the next', async () => {
      const world = await makeWorld();
      const [one, two] = await Promise.all([world.governor(), world.governor()]);
      const limits = { maxInFlight: 2 };
      const first = await granted(one, aRequest('a', limits));
      await granted(two, aRequest('b', limits));
      await expectParked(two, aRequest('c', limits), 50);
      const waiting = granted(two, aRequest('d', limits), longMs);
      await one.settle(first, { usedTokens: 10, outputTokens: 5 });
      expect(await waiting).toMatchObject({ limiter: 'key:model', tenant: 'acme' });
    });

    test('within a tenant it is first come, first served', async () => {
      const governor = await (await makeWorld()).governor();
      const runs = ['a', 'b', 'c', 'd', 'e'];
      expect(
        await orderOf(
          governor,
          runs.map((runId) => aRequest(runId, oneAtATime)),
        ),
      ).toEqual(runs);
    });

    test('between tenants the shares are equal by tokens, not by calls', async () => {
      const governor = await (await makeWorld()).governor();
      const small = Array.from({ length: 8 }, (_, i) => aRequest(`small${i}`, oneAtATime, { tenant: 'small' }));
      const large = Array.from({ length: 4 }, (_, i) =>
        aRequest(`large${i}`, oneAtATime, { tenant: 'large', promptTokens: 300 }),
      );
      const order = await orderOf(governor, [...large, ...small]);
      // Two calls of 200 tokens for one of 400.
      expect(order.slice(0, 6).filter((runId) => runId.startsWith('large'))).toHaveLength(2);
      expect(order.slice(0, 9).filter((runId) => runId.startsWith('large'))).toHaveLength(3);
    });

    test('a weight of two gives twice the share', async () => {
      const governor = await (await makeWorld()).governor();
      const of = (tenant: string, weight: number) =>
        Array.from({ length: 6 }, (_, i) => aRequest(`${tenant}${i}`, oneAtATime, { tenant, weight }));
      const order = await orderOf(governor, [...of('light', 1), ...of('heavy', 2)]);
      expect(order.slice(0, 9).filter((runId) => runId.startsWith('heavy'))).toHaveLength(6);
    });

    test('who comes late does not stand behind all that a flooding tenant has in line', async () => {
      const governor = await (await makeWorld()).governor();
      const flood = Array.from({ length: 20 }, (_, i) => aRequest(`flood${i}`, oneAtATime, { tenant: 'flood' }));
      const order = await orderOf(governor, [...flood, aRequest('late', oneAtATime, { tenant: 'small' })]);
      expect(order.indexOf('late')).toBeLessThan(2);
    });

    test('a wait that is sure to be too long parks at once', async () => {
      const governor = await (await makeWorld()).governor();
      const limits = { requestsPerMinute: 1 };
      await granted(governor, aRequest('a', limits));
      expect(await expectParked(governor, aRequest('b', limits), 15_000)).toBeGreaterThan(15_000);
    });

    test('parked runs are woken in order, each once, and find their turn waiting', async () => {
      const world = await makeWorld();
      const [one, two] = await Promise.all([world.governor(), world.governor()]);
      const first = await granted(one, aRequest('a', oneAtATime));
      const others = ['b', 'c'].map((runId) => aRequest(runId, oneAtATime));
      for (const request of others) await suspended(one, request);
      expect([await one.pump(), await two.pump()]).toEqual([[], []]);

      await one.settle(first, {});
      expect(await pumped(two)).toEqual(['b']);
      expect([await one.pump(), await two.pump()]).toEqual([[], []]);
      // The turn of the woken run is its own: nobody else can have it.
      await expectParked(one, aRequest('d', oneAtATime));
      const second = await granted(one, others[0] as GrantRequest, 0);
      await one.settle(second, {});
      expect(await pumped(one)).toEqual(['c']);
    });

    test('a run that is woken too early keeps its place', async () => {
      const governor = await (await makeWorld()).governor();
      const first = await granted(governor, aRequest('a', oneAtATime));
      const [b, c] = [aRequest('b', oneAtATime), aRequest('c', oneAtATime)];
      await suspended(governor, b);
      await suspended(governor, c);
      await suspended(governor, b);
      await governor.settle(first, {});
      expect(await pumped(governor)).toEqual(['b']);
    });

    test('to park twice is to park once, and a run whose wake-up got lost is woken again', async () => {
      const governor = await (await makeWorld()).governor();
      const first = await granted(governor, aRequest('a', oneAtATime));
      const [b, c] = [aRequest('b', oneAtATime), aRequest('c', oneAtATime)];
      await suspended(governor, b);
      await suspended(governor, c);
      await governor.park(b);
      await governor.settle(first, {});
      expect(await pumped(governor)).toEqual(['b']);
      await governor.park(b);
      expect(await pumped(governor)).toEqual(['b']);
      await governor.settle(await granted(governor, b, 0), {});
      expect(await pumped(governor)).toEqual(['c']);
    });

    test('a run that left is not woken, and what was promised to it goes to the next', async () => {
      const governor = await (await makeWorld()).governor();
      const first = await granted(governor, aRequest('a', oneAtATime));
      for (const runId of ['b', 'c', 'd']) await suspended(governor, aRequest(runId, oneAtATime));
      await governor.leave('b');
      await governor.settle(first, {});
      expect(await pumped(governor)).toEqual(['c']);
      await governor.leave('c');
      expect(await pumped(governor)).toEqual(['d']);
    });

    test('an aborted wait rejects with the reason and gives its place up', async () => {
      const governor = await (await makeWorld()).governor();
      const first = await granted(governor, aRequest('a', oneAtATime));
      const abort = new AbortController();
      const aborted = governor.acquire(aRequest('b', oneAtATime), longMs, abort.signal);
      const next = granted(governor, aRequest('c', oneAtATime), longMs);
      abort.abort(new Error('cancelled'));
      await expect(aborted).rejects.toThrow('cancelled');
      await governor.settle(first, {});
      expect((await next).id).not.toBe('');
      await expect(governor.acquire(aRequest('d', oneAtATime), 0, abort.signal)).rejects.toThrow('cancelled');
    });

    test('two calls of one run wait side by side', async () => {
      const governor = await (await makeWorld()).governor();
      const first = await granted(governor, aRequest('a', oneAtATime));
      const calls = [1, 2].map(async () => governor.settle(await granted(governor, aRequest('b', oneAtATime)), {}));
      await governor.settle(first, {});
      await Promise.all(calls);
      expect(await granted(governor, aRequest('c', oneAtATime), 0)).toMatchObject({ tenant: 'acme' });
    });

    test('a call that was never sent costs nothing', async () => {
      const governor = await (await makeWorld()).governor();
      const limits = { requestsPerMinute: 2, tokensPerMinute: 400 };
      for (let i = 0; i < 5; i++) {
        const grant = await granted(governor, aRequest(`r${i}`, limits), 0);
        expect(grant.tokens).toBe(200);
        await governor.settle(grant, { unused: true });
      }
    });

    test('tokens that were not used are given back', async () => {
      const governor = await (await makeWorld()).governor();
      // Room for one estimate of 1,100 tokens, not for two.
      const limits = { tokensPerMinute: 2_000 };
      const request = (runId: string) => aRequest(runId, limits, { maxOutputTokens: 1_000 });
      const first = await granted(governor, request('a'));
      await expectParked(governor, request('b'), 15_000);
      await governor.settle(first, { usedTokens: 1 });
      expect((await granted(governor, request('c'), 15_000)).tokens).toBe(1_100);
    });

    test('what answers really have is learnt, and never expected beyond their bound', async () => {
      const governor = await (await makeWorld()).governor();
      const limits = { tokensPerMinute: 10_000_000 };
      const request = (changes: Partial<GrantRequest>) => aRequest(randomUUID(), limits, changes);
      const guess = await granted(governor, request({ maxOutputTokens: 50_000 }));
      expect(guess.tokens).toBe(100 + 1_024);
      await governor.settle(guess, { usedTokens: 300, outputTokens: 200 });
      expect((await granted(governor, request({ maxOutputTokens: 50_000 }))).tokens).toBeCloseTo(300, -1);
      expect((await granted(governor, request({ maxOutputTokens: 20 }))).tokens).toBeLessThan(200);
    });

    test('a call larger than a whole window gets through when there is nothing else', async () => {
      const governor = await (await makeWorld()).governor();
      const limits = { tokensPerMinute: 100 };
      const grant = await granted(governor, aRequest('a', limits, { promptTokens: 5_000 }), 0);
      expect(grant.tokens).toBeGreaterThan(5_000);
      await expectParked(governor, aRequest('b', limits), 15_000);
    });

    test('one refusal cools the whole fleet for as long as the provider says', async () => {
      const world = await makeWorld();
      const cooled: number[] = [];
      const one = await world.governor({ cooled: (_, ms) => cooled.push(ms) });
      const two = await world.governor();
      const limits = { requestsPerMinute: 60_000 };
      await one.settle(await granted(one, aRequest('a', limits)), { limited: { retryAfterMs: 40_000 } });
      const expectedMs = await expectParked(two, aRequest('b', limits), 15_000);
      expect(expectedMs).toBeGreaterThan(30_000);
      expect(expectedMs).toBeLessThanOrEqual(40_000);
      expect(cooled).toEqual([40_000]);
      await two.park(aRequest('b', limits));
      expect(await two.pump()).toEqual([]);
    });

    test('a cooldown ends, never lasts longer than a minute, and grows when nobody says how long', async () => {
      const cooled: number[] = [];
      const governor = await (await makeWorld()).governor({ cooled: (_, ms) => cooled.push(ms) });
      const limits = { requestsPerMinute: 60_000 };
      const refused = async (limited: { retryAfterMs?: number }) =>
        governor.settle(await granted(governor, aRequest(randomUUID(), limits)), { limited });
      await refused({ retryAfterMs: 300 });
      await refused({});
      await refused({ retryAfterMs: 86_400_000 });
      expect(cooled).toEqual([300, 2_000, 60_000]);
    });

    test('refusals of calls that were under way together are one cooldown', async () => {
      const cooled: number[] = [];
      const governor = await (await makeWorld()).governor({ cooled: (_, ms) => cooled.push(ms) });
      const limits = { requestsPerMinute: 60_000 };
      const grants = await Promise.all(
        Array.from({ length: 5 }, (_, i) => granted(governor, aRequest(`r${i}`, limits))),
      );
      for (const grant of grants) await governor.settle(grant, { limited: { retryAfterMs: 400 } });
      await governor.settle(await granted(governor, aRequest('next', limits)), { limited: {} });
      expect(cooled).toEqual([400, 2_000]);
    });

    test('a limit that nobody configured is learnt from what the provider says', async () => {
      const world = await makeWorld();
      const learnt: ProviderLimits[] = [];
      const one = await world.governor({ learnt: (_, limits) => learnt.push(limits) });
      const two = await world.governor();
      const report = { requests: { limit: 2, remaining: 1 }, tokens: { limit: 90_000, remaining: 90_000 } };
      await one.settle(await granted(one, aRequest('a', {})), { report, usedTokens: 100, outputTokens: 10 });
      expect(learnt).toEqual([{ requestsPerMinute: 2, tokensPerMinute: 90_000 }]);
      // One of two is used, and they are spread over the minute.
      await granted(two, aRequest('b', {}));
      await expectParked(one, aRequest('c', {}), 10_000);
    });

    test('a provider without words teaches a rate by refusing', async () => {
      const learnt: ProviderLimits[] = [];
      const governor = await (await makeWorld()).governor({ learnt: (_, limits) => learnt.push(limits) });
      const grants = await Promise.all(Array.from({ length: 20 }, (_, i) => granted(governor, aRequest(`r${i}`, {}))));
      for (const grant of grants.slice(0, 19)) await governor.settle(grant, {});
      await governor.settle(grants[19] as Grant, { limited: { retryAfterMs: 250 } });
      const { requestsPerMinute } = learnt[0] as ProviderLimits;
      // Twenty within some seconds are at most as many per ten seconds.
      expect(requestsPerMinute).toBeGreaterThanOrEqual(10);
      expect(requestsPerMinute).toBeLessThan(120);
      await granted(governor, aRequest('next', {}));
    });

    test('nothing left pauses the fleet until the reset', async () => {
      const world = await makeWorld();
      const [one, two] = await Promise.all([world.governor(), world.governor()]);
      const limits = { requestsPerMinute: 100 };
      const report = { requests: { limit: 100, remaining: 0, resetMs: 30_000 } };
      await one.settle(await granted(one, aRequest('a', limits)), { report });
      expect(await expectParked(two, aRequest('b', limits), 15_000)).toBeGreaterThan(20_000);
    });

    test('what others use of the same credential is missing here too', async () => {
      const governor = await (await makeWorld()).governor();
      const limits = { requestsPerMinute: 100 };
      const report = { requests: { limit: 100, remaining: 1 } };
      await governor.settle(await granted(governor, aRequest('a', limits)), { report });
      await granted(governor, aRequest('b', limits));
      expect(await expectParked(governor, aRequest('c', limits), 100)).toBeGreaterThanOrEqual(0);
    });
  });
}
