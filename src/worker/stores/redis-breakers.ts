import { z } from 'zod';
import type { Clock } from '../../shared/clock.ts';
import type { Log } from '../../shared/log.ts';
import { loadScript, runScript, type Keys, type RedisConnection } from '../../shared/redis.ts';
import { redisError } from '../../shared/redis-error.ts';
import type { Breakers } from '../ports.ts';
import { CachedBreakers, probeLeaseMs, type BreakerState, type SharedBreakers } from './breakers.ts';

const script = loadScript(import.meta.url, './lua/breaker.lua');

export interface RedisBreakersOptions {
  readonly redis: RedisConnection;
  /** A connection for channels only. It stays open when the breakers are disposed. */
  readonly subscriber: RedisConnection;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly log: Log;
}

const change = z.object({ target: z.string(), failures: z.number(), waitMs: z.number(), probedMs: z.number() });
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
    // Listed first: a breaker that is listed and closed is taken off the list, one that is not listed would be missed.
    await this.#command('list a breaker', redis.sadd(keys.breakers, target));
    return await this.#step('fail', target, token, policy);
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
    const states = await Promise.all(targets.map((target) => this.#step('look', target, '')));
    const open = new Map<string, BreakerState>();
    for (const [index, target] of targets.entries()) {
      const state = states[index];
      if (state && (state.failures > 0 || state.waitMs !== undefined)) open.set(target, state);
      else await this.#command('take a breaker off the list', redis.srem(keys.breakers, target));
    }
    return open;
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
    const [failures, waitMs, mine, probedMs] = (await this.#command(
      `${op} at a breaker`,
      runScript(redis, script, [keys.breaker(target)], args),
    )) as readonly [number, number, number, number];
    return { failures, waitMs: waitMs < 0 ? undefined : waitMs, mine: mine === 1, probedMs };
  }

  async #command<T>(doing: string, command: Promise<T>): Promise<T> {
    return await command.catch((error: unknown) => {
      throw redisError(error, doing);
    });
  }
}
