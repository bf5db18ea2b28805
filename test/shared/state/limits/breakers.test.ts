import { expect, onTestFinished, test } from 'vitest';
import { systemClock, type Clock } from '../../../../src/shared/base/clock.ts';
import { silentLog } from '../../../../src/shared/base/log.ts';
import { keysFor } from '../../../../src/shared/state/keys.ts';
import {
  type Admission,
  type Breakers,
  CachedBreakers,
  redisBreakers,
} from '../../../../src/shared/state/limits/breakers.ts';
import type { BreakerState, SharedBreakers } from '../../../../src/shared/state/limits/shared-breakers.ts';
import { testPrefix, testRedis, until } from '../../../support/redis.ts';

const never = new AbortController().signal;
const target = 'acme/m';
const closed: Admission = { kind: 'closed' };
const policy = { failureThreshold: 1, cooldownMs: 60_000 };

const well: BreakerState = { failures: 0, waitMs: undefined, probedMs: 0, at: 0 };
const failing: BreakerState = { ...well, failures: 1, at: 1 };
const open: BreakerState = { failures: 5, waitMs: 60_000, probedMs: 0, at: 2 };
const ripe: BreakerState = { ...open, waitMs: 0 };

const silence = <T>() => new Promise<T>(() => {});

/** Breakers on a store that answers as the test wants, and publishes changes. */
function makeBreakers(store: Partial<SharedBreakers>, clock: Clock = systemClock) {
  let publish: (target: string, state: BreakerState) => void = () => {};
  const shared: SharedBreakers = {
    fail: silence,
    succeed: silence,
    probe: silence,
    release: silence,
    all: silence,
    onChange(listener) {
      publish = listener;
      return { [Symbol.dispose]: () => {} };
    },
    ...store,
  };
  const breakers = new CachedBreakers({ shared, clock, log: silentLog });
  onTestFinished(() => breakers[Symbol.asyncDispose]());
  return { breakers, publish: (state: BreakerState) => publish(target, state) };
}

const stateOf = (breakers: Breakers) => breakers.states().get(target);

/** Time that passes at once. */
const impatient: Clock = { ...systemClock, sleep: async () => {} };

test('while a model is well the store is not asked', async () => {
  const asked: string[] = [];
  const ask = async (name: string) => (asked.push(name), well);
  const { breakers } = makeBreakers({
    succeed: () => ask('succeed'),
    release: () => ask('release'),
    probe: async () => ({ ...(await ask('probe')), mine: false }),
  });
  const admission = await breakers.admit(target, 0, never);
  await breakers.report(target, 'success', admission, policy);
  await breakers.report(target, 'neutral', admission, policy);
  expect([admission, asked]).toEqual([closed, []]);
});

test('the reply to a failure does not undo a later one that was published before it', async () => {
  const reply = Promise.withResolvers<BreakerState>();
  const { breakers, publish } = makeBreakers({ fail: () => reply.promise });
  const reported = breakers.report(target, 'failure', closed, policy);
  publish(open);
  reply.resolve(failing);
  await reported;
  expect(stateOf(breakers)).toBe('open');
});

test('a look at the store does not undo what was published while it went on', async () => {
  const looked = Promise.withResolvers<ReadonlyMap<string, BreakerState>>();
  const looks: number[] = [];
  const { breakers, publish } = makeBreakers({
    all: () => (looks.push(1) === 1 ? looked.promise : silence()),
  });
  await until('it looks', () => looks.length === 1);
  publish(open);
  looked.resolve(new Map([[target, failing]]));
  await until('it looks again', () => looks.length === 2);
  expect(stateOf(breakers)).toBe('open');
});

test('a store whose clock went back is believed when it is asked', async () => {
  const { breakers, publish } = makeBreakers({ succeed: async () => well });
  publish({ ...failing, at: 9 });
  await breakers.report(target, 'success', closed, policy);
  expect(breakers.states().size).toBe(0);
});

test('a store that does not answer holds up neither calls nor reports', async () => {
  const { breakers, publish } = makeBreakers({}, impatient);
  publish(ripe);
  expect(await breakers.admit(target, 60_000, never)).toEqual(closed);
  await breakers.report(target, 'failure', closed, policy);
});

test('who waits for the answer of the store can be aborted, and a probe that comes late is given back', async () => {
  const reply = Promise.withResolvers<BreakerState & { mine: boolean }>();
  const tokens: string[] = [];
  const given: string[] = [];
  const { breakers, publish } = makeBreakers({
    probe: (_, token) => {
      tokens.push(token);
      return reply.promise;
    },
    release: async (_, token) => {
      given.push(token);
      return ripe;
    },
  });
  publish(ripe);
  const stop = new AbortController();
  const waiting = breakers.admit(target, 60_000, stop.signal);
  stop.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  reply.resolve({ ...ripe, mine: true });
  await until('it is given back', () => given.length > 0);
  expect(given).toEqual(tokens);
});

test('a breaker that opens while another process takes it off the list stays on it', async () => {
  const keys = keysFor(testPrefix());
  const redis = await testRedis();
  const options = { keys, clock: systemClock, log: silentLog };
  const breakersWith = async (connection: typeof redis) => {
    const breakers = redisBreakers({ ...options, redis: connection, subscriber: await testRedis('subscribe') });
    onTestFinished(() => breakers[Symbol.asyncDispose]());
    return breakers;
  };
  await redis.sadd(keys.breakers, target);
  const meddling = await testRedis();
  const takeOff = meddling.srem.bind(meddling) as (...args: unknown[]) => Promise<number>;
  let meddled = 0;
  Object.assign(meddling, {
    async srem(...args: unknown[]) {
      if (++meddled === 1) await (await breakersWith(redis)).report(target, 'failure', closed, policy);
      return await takeOff(...args);
    },
  });
  const late = await breakersWith(meddling);
  await until('it took the breaker off the list', () => meddled > 0);
  await expect.poll(() => redis.smembers(keys.breakers)).toEqual([target]);
  await expect.poll(() => stateOf(late)).toBe('open');
});
