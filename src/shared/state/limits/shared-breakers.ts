import { z } from 'zod';
import type { BreakerPolicy } from '../../contract/agent/agent.ts';
import type { Log } from '../../base/log.ts';
import { loadScript, runScript } from '../script.ts';
import type { KeySpace } from '../keys.ts';
import { named, withNamedErrors } from '../errors.ts';

const script = loadScript(import.meta.url, './breaker.lua');

export interface SharedBreakersOptions extends KeySpace {
  readonly subscriber: KeySpace['redis'];
  readonly log: Log;
}

/** What is known of one breaker. */
export interface BreakerState {
  /** Consecutive ones, over the fleet. */
  readonly failures: number;
  /** Milliseconds until a probe may be made; undefined while it is closed. */
  readonly waitMs: number | undefined;
  /** For how long a probe is out; 0: there is none. */
  readonly probedMs: number;
  /** When this was so, in microseconds on the store's clock. */
  readonly at: number;
}

/** What opens a breaker, and for how long. */
export type OpeningPolicy = Pick<BreakerPolicy, 'failureThreshold' | 'cooldownMs'>;

/** The breakers that all processes share. */
export type SharedBreakers = ReturnType<typeof redisSharedBreakers>;

/** A probe belongs to its process for this long, and is renewed with every look while its call goes on. */
const probeLeaseMs = 15_000;
const change = z.object({
  target: z.string(),
  failures: z.number(),
  waitMs: z.number(),
  probedMs: z.number(),
  at: z.coerce.number(),
});
/** For steps that open nothing. */
const noPolicy = { failureThreshold: 0, cooldownMs: 60_000 };

/** `token` names the caller's probe, `''` without one. */
export function redisSharedBreakers({ redis, subscriber, keys, log }: SharedBreakersOptions) {
  async function step(
    op: 'fail' | 'succeed' | 'probe' | 'release' | 'look',
    target: string,
    token: string,
    { failureThreshold, cooldownMs }: OpeningPolicy = noPolicy,
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

  const steps = withNamedErrors('breakers', {
    async fail(target: string, token: string, policy: OpeningPolicy): Promise<BreakerState> {
      const state = await step('fail', target, token, policy);
      // Listed last: a process that takes it off the list meanwhile looks again afterwards, and finds the failure.
      await redis.sadd(keys.breakers, target);
      return state;
    },
    succeed: async (target: string, token: string): Promise<BreakerState> => step('succeed', target, token),
    /** Takes the probe when it is due and free, or renews it. */
    probe: (target: string, token: string) => step('probe', target, token),
    release: async (target: string, token: string): Promise<BreakerState> => step('release', target, token),
    /** Every breaker that is not closed without failures. */
    async all(): Promise<ReadonlyMap<string, BreakerState>> {
      const targets = await redis.smembers(keys.breakers);
      const states = await Promise.all(targets.map(async (target) => [target, await look(target)] as const));
      return new Map(states.filter(([, state]) => isTroubled(state)));
    },
  });

  return {
    ...steps,
    /** Calls back with the changes of every process. Changes may be missed: `all` is asked as well. */
    onChange: (listener: BreakerListener) => onChange(listener, { subscriber, keys, log }),
  };
}

type BreakerListener = (target: string, state: BreakerState) => void;

function onChange(listener: BreakerListener, { subscriber, keys, log }: Omit<SharedBreakersOptions, 'redis'>) {
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

/** Is there anything to remember? */
function isTroubled({ failures, waitMs }: BreakerState): boolean {
  return failures > 0 || waitMs !== undefined;
}
