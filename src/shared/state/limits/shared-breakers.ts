import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';
import type { Keys } from '../keys.ts';
import { named, withNamedErrors } from '../errors.ts';
import { type Breakers, CachedBreakers, probeLeaseMs, type BreakerState, type SharedBreakers } from './breakers.ts';

const script = loadScript(import.meta.url, './breaker.lua');

export interface RedisBreakersOptions {
  readonly redis: RedisConnection;
  /** A connection for channels only. It stays open when the breakers are disposed. */
  readonly subscriber: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly log: Log;
}

const change = z.object({
  target: z.string(),
  failures: z.number(),
  waitMs: z.number(),
  probedMs: z.number(),
  at: z.coerce.number(),
});
/** For steps that open nothing. */
const noPolicy = { failureThreshold: 0, cooldownMs: 60_000 };

/** The breakers in Redis, shared by all workers. */
export function redisBreakers(options: RedisBreakersOptions): Breakers {
  const { clock, log } = options;
  return new CachedBreakers({ shared: sharedBreakers(options), clock, log });
}

function sharedBreakers({ redis, subscriber, keys, log }: RedisBreakersOptions): SharedBreakers {
  async function step(
    op: 'fail' | 'succeed' | 'probe' | 'release' | 'look',
    target: string,
    token: string,
    { failureThreshold, cooldownMs }: typeof noPolicy = noPolicy,
  ): Promise<BreakerState & { readonly mine: boolean }> {
    const args = [op, token, failureThreshold, cooldownMs, probeLeaseMs, keys.breakerChannel, target];
    const reply = await runScript(redis, script, [keys.breaker(target)], args, { doing: `${op} at a breaker` });
    const [failures, waitMs, mine, probedMs, at] = reply as readonly [number, number, number, number, string];
    return { failures, waitMs: waitMs < 0 ? undefined : waitMs, mine: mine === 1, probedMs, at: Number(at) };
  }

  async function look(target: string): Promise<BreakerState> {
    const seen = await step('look', target, '');
    if (isTroubled(seen)) return seen;
    await redis.srem(keys.breakers, target);
    const state = await step('look', target, '');
    if (isTroubled(state)) await redis.sadd(keys.breakers, target);
    return state;
  }

  const steps = withNamedErrors<Omit<SharedBreakers, 'onChange'>>('breakers', {
    async fail(target, token, policy) {
      const state = await step('fail', target, token, policy);
      // Listed last: a process that takes it off the list meanwhile looks again afterwards, and finds the failure.
      await redis.sadd(keys.breakers, target);
      return state;
    },
    succeed: (target, token) => step('succeed', target, token),
    probe: (target, token) => step('probe', target, token),
    release: (target, token) => step('release', target, token),
    async all() {
      const targets = await redis.smembers(keys.breakers);
      const states = await Promise.all(targets.map(async (target) => [target, await look(target)] as const));
      return new Map(states.filter(([, state]) => isTroubled(state)));
    },
  });

  function onChange(listener: (target: string, state: BreakerState) => void): Disposable {
    const receive = (channel: string, message: string) => {
      if (channel !== keys.breakerChannel) return;
      try {
        const { target, waitMs, ...state } = change.parse(JSON.parse(message));
        listener(target, { ...state, waitMs: waitMs < 0 ? undefined : waitMs });
      } catch (error) {
        log.debug({ err: error }, 'a change of a breaker could not be read');
      }
    };
    subscriber.on('message', receive);
    named('subscribe to breakers', subscriber.subscribe(keys.breakerChannel)).catch((error: unknown) => {
      log.debug({ err: error }, 'changes of breakers arrive by polling only');
    });
    return {
      [Symbol.dispose]: () => {
        subscriber.off('message', receive);
        subscriber.unsubscribe(keys.breakerChannel).catch(() => {});
      },
    };
  }

  return { ...steps, onChange };
}

/** Is there anything to remember? */
function isTroubled({ failures, waitMs }: BreakerState): boolean {
  return failures > 0 || waitMs !== undefined;
}
