import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RedisConnection } from '../connect.ts';
import { loadScript, runScript } from '../script.ts';
import type { Keys } from '../keys.ts';
import { redisError } from '../errors.ts';
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
  return new CachedBreakers({ shared: new RedisSharedBreakers(options), clock, log });
}

class RedisSharedBreakers implements SharedBreakers {
  readonly #options: RedisBreakersOptions;

  constructor(options: RedisBreakersOptions) {
    this.#options = options;
  }

  async fail(target: string, token: string, policy: typeof noPolicy): Promise<BreakerState> {
    const { redis, keys } = this.#options;
    const state = await this.#step('fail', target, token, policy);
    // Listed last: a process that takes it off the list meanwhile looks again afterwards, and finds the failure.
    await this.#command('list a breaker', redis.sadd(keys.breakers, target));
    return state;
  }

  succeed(target: string, token: string): Promise<BreakerState> {
    return this.#step('succeed', target, token);
  }

  probe(target: string, token: string): Promise<BreakerState & { readonly mine: boolean }> {
    return this.#step('probe', target, token);
  }

  release(target: string, token: string): Promise<BreakerState> {
    return this.#step('release', target, token);
  }

  async all(): Promise<ReadonlyMap<string, BreakerState>> {
    const { redis, keys } = this.#options;
    const targets = await this.#command('read the breakers', redis.smembers(keys.breakers));
    const states = await Promise.all(targets.map(async (target) => [target, await this.#look(target)] as const));
    return new Map(states.filter(([, state]) => isTroubled(state)));
  }

  async #look(target: string): Promise<BreakerState> {
    const { redis, keys } = this.#options;
    const seen = await this.#step('look', target, '');
    if (isTroubled(seen)) return seen;
    await this.#command('take a breaker off the list', redis.srem(keys.breakers, target));
    const state = await this.#step('look', target, '');
    if (isTroubled(state)) await this.#command('list a breaker', redis.sadd(keys.breakers, target));
    return state;
  }

  onChange(listener: (target: string, state: BreakerState) => void): Disposable {
    const { subscriber, keys, log } = this.#options;
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
    subscriber.subscribe(keys.breakerChannel).catch((error: unknown) => {
      log.debug({ err: redisError(error, 'subscribe to breakers') }, 'changes of breakers arrive by polling only');
    });
    return {
      [Symbol.dispose]: () => {
        subscriber.off('message', receive);
        subscriber.unsubscribe(keys.breakerChannel).catch(() => {});
      },
    };
  }

  async #step(
    op: 'fail' | 'succeed' | 'probe' | 'release' | 'look',
    target: string,
    token: string,
    { failureThreshold, cooldownMs }: typeof noPolicy = noPolicy,
  ): Promise<BreakerState & { readonly mine: boolean }> {
    const { redis, keys } = this.#options;
    const args = [op, token, failureThreshold, cooldownMs, probeLeaseMs, keys.breakerChannel, target];
    const doing = `${op} at a breaker`;
    const reply = await this.#command(doing, runScript(redis, script, [keys.breaker(target)], args, { doing }));
    const [failures, waitMs, mine, probedMs, at] = reply as readonly [number, number, number, number, string];
    return { failures, waitMs: waitMs < 0 ? undefined : waitMs, mine: mine === 1, probedMs, at: Number(at) };
  }

  async #command<T>(doing: string, command: Promise<T>): Promise<T> {
    return await command.catch((error: unknown) => {
      throw redisError(error, doing);
    });
  }
}

/** Is there anything to remember? */
function isTroubled({ failures, waitMs }: BreakerState): boolean {
  return failures > 0 || waitMs !== undefined;
}
