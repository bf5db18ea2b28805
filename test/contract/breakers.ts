import { describe, expect, test } from 'vitest';
import type { Admission, Breakers } from '../../src/shared/state/limits/breakers.ts';
import { until } from '../support/redis.ts';

export interface BreakersWorld {
  /** One more worker of the same fleet. */
  breakers(): Promise<Breakers>;
}

const never = new AbortController().signal;
const target = 'acme/m';
const policy = { failureThreshold: 5, cooldownMs: 60_000 };
/** Has ended by the time of the next call. */
const brief = { failureThreshold: 5, cooldownMs: 1 };
const closed: Admission = { kind: 'closed' };
const longMs = 60_000;

async function fail(breakers: Breakers, times: number, how = policy): Promise<void> {
  for (let i = 0; i < times; i++) await breakers.report(target, 'failure', closed, how);
}

const kindOf = async (breakers: Breakers, name = target) => (await breakers.admit(name, 0, never)).kind;

/** Waits until this worker knows. */
async function knows(breakers: Breakers, kind: Admission['kind'] | 'half_open'): Promise<void> {
  await until(`the breaker is ${kind}`, () => (breakers.states().get(target) ?? 'closed') === kind);
}

/** A worker that sees the breaker open and its cooldown ended. */
async function ripe(world: BreakersWorld): Promise<Breakers> {
  const breakers = await world.breakers();
  await fail(breakers, 5, brief);
  await knows(breakers, 'half_open');
  return breakers;
}

async function probe(breakers: Breakers): Promise<Admission> {
  const admission = await breakers.admit(target, 0, never);
  expect(admission).toEqual({ kind: 'probe' });
  return admission;
}

/** What all breakers promise. */
export function breakersContract(name: string, makeWorld: () => BreakersWorld): void {
  describe(`${name} as breakers`, () => {
    test('failures of two workers open it together, and both know', async () => {
      const world = makeWorld();
      const [one, two] = [await world.breakers(), await world.breakers()];
      await fail(one, 3);
      expect(await kindOf(one)).toBe('closed');
      await fail(two, 2);
      await Promise.all([knows(one, 'open'), knows(two, 'open')]);
      const answer = await one.admit(target, longMs, never);
      expect(answer).toEqual({ kind: 'open', retryAfterMs: expect.any(Number) });
      expect(answer.kind === 'open' && answer.retryAfterMs).toBeLessThanOrEqual(policy.cooldownMs);
      expect(await kindOf(one, 'acme/other')).toBe('closed');
    });

    test('a success anywhere begins the count anew', async () => {
      const world = makeWorld();
      const [one, two] = [await world.breakers(), await world.breakers()];
      await fail(one, 4);
      await until('the other knows', () => two.states().has(target));
      await two.report(target, 'success', closed, policy);
      await until('both forget', () => !one.states().has(target) && !two.states().has(target));
      await fail(one, 4);
      expect(await kindOf(one)).toBe('closed');
      await fail(one, 1);
      expect(await kindOf(one)).toBe('open');
    });

    test('calls that prove nothing about the model do not count', async () => {
      const breakers = await makeWorld().breakers();
      for (let i = 0; i < 10; i++) await breakers.report(target, 'neutral', closed, policy);
      expect(await kindOf(breakers)).toBe('closed');
      expect(breakers.states().size).toBe(0);
    });

    test('a late success of a call that went out before does not close it', async () => {
      const breakers = await makeWorld().breakers();
      await fail(breakers, 5);
      await breakers.report(target, 'success', closed, policy);
      expect(await kindOf(breakers)).toBe('open');
    });

    test('after the cooldown one of many, in all workers, gets the probe', async () => {
      const world = makeWorld();
      const workers = [await ripe(world), await world.breakers(), await world.breakers()];
      for (const worker of workers) await knows(worker, 'half_open');
      const asked = await Promise.all(
        Array.from({ length: 12 }, (_, i) => (workers[i % 3] as Breakers).admit(target, 0, never)),
      );
      expect(asked.map(({ kind }) => kind).toSorted()).toEqual([...Array.from({ length: 11 }, () => 'open'), 'probe']);
    });

    test('who waits while a probe is under way goes on when it succeeds', async () => {
      const world = makeWorld();
      const [one, two] = [await ripe(world), await world.breakers()];
      const admission = await probe(one);
      await until('the other knows', () => two.states().get(target) === 'half_open');
      const waiting = [one.admit(target, longMs, never), two.admit(target, longMs, never)];
      await one.report(target, 'success', admission, policy);
      expect(await Promise.all(waiting)).toEqual([closed, closed]);
    });

    test('a failed probe opens it again, also for those who wait', async () => {
      const world = makeWorld();
      const [one, two] = [await ripe(world), await world.breakers()];
      const admission = await probe(one);
      await until('the other knows', () => two.states().get(target) === 'half_open');
      const waiting = two.admit(target, longMs, never);
      await one.report(target, 'failure', admission, policy);
      expect(await waiting).toMatchObject({ kind: 'open' });
      expect(await kindOf(one)).toBe('open');
    });

    test('a probe that found out nothing goes to the next', async () => {
      const world = makeWorld();
      const breakers = await ripe(world);
      const first = await probe(breakers);
      const second = breakers.admit(target, longMs, never);
      await breakers.report(target, 'neutral', first, policy);
      expect(await second).toEqual({ kind: 'probe' });
    });

    test('who waits can be aborted', async () => {
      const breakers = await ripe(makeWorld());
      await probe(breakers);
      const stop = new AbortController();
      const waiting = breakers.admit(target, longMs, stop.signal);
      stop.abort(new Error('enough'));
      await expect(waiting).rejects.toThrow('enough');
    });

    test('a worker that leaves gives its probe back', async () => {
      const world = makeWorld();
      const [one, two] = [await ripe(world), await world.breakers()];
      await probe(one);
      await one[Symbol.asyncDispose]();
      await expect.poll(() => kindOf(two)).toBe('probe');
    });

    test('a worker that comes later learns what the others know', async () => {
      const world = makeWorld();
      await fail(await world.breakers(), 5);
      const late = await world.breakers();
      await expect.poll(() => kindOf(late)).toBe('open');
    });
  });
}
