import { orLate } from '../../base/deadline.ts';
import { randomUUID } from 'node:crypto';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { sha256 } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import {
  redisSharedBreakers,
  type BreakerState,
  type OpeningPolicy,
  type SharedBreakers,
  type SharedBreakersOptions,
} from './shared-breakers.ts';

export type Admission =
  | { readonly kind: 'closed' }
  /** The one call that finds out whether the model is back. */
  | { readonly kind: 'probe' }
  | { readonly kind: 'open'; readonly retryAfterMs: number };

export type CallHealth = 'success' | 'failure' | 'neutral';

/**
 * Circuit breakers by provider and model, shared by all workers: opened by consecutive failures anywhere in the fleet,
 * known everywhere within a second, closed by one successful probe after the cooldown.
 */
export interface Breakers extends AsyncDisposable {
  /** No round trip while all is well. Waits for the result of another caller's probe, at most `maxInlineWaitMs`. */
  admit(target: string, maxInlineWaitMs: number, signal: AbortSignal): Promise<Admission>;
  /** `neutral`: the call proves nothing about the health of the model; a probe is released. */
  report(target: string, health: CallHealth, admission: Admission, policy: OpeningPolicy): Promise<void>;
  /** As this process knows it, for metrics. */
  states(): ReadonlyMap<string, 'closed' | 'open' | 'half_open'>;
}

interface CachedBreakersOptions {
  readonly shared: SharedBreakers;
  readonly clock: Clock;
  readonly log: Log;
}

interface Known {
  readonly failures: number;
  /** On the monotonic clock; undefined while it is closed. */
  readonly openUntil: number | undefined;
  readonly probedUntil: number;
  readonly at: number;
}

const pollMs = 1_000;
/** Longest wait for the store: while it is away, its connection waits for it as long as that takes. */
const storeMs = 5_000;
const maxKnown = 10_000;

/** The breakers in Redis, shared by all workers. `subscriber` is for channels only; it stays open when they are disposed. */
export function redisBreakers({
  clock,
  log,
  ...redis
}: Omit<CachedBreakersOptions, 'shared'> & SharedBreakersOptions): Breakers {
  return new CachedBreakers({ shared: redisSharedBreakers({ ...redis, log }), clock, log });
}

/**
 * Breakers with a cache in this process: while a model is well nothing is asked or written. Changes of others arrive by
 * channel, or by the next poll a second later. While the store is away the cache decides, and new results are forgotten.
 */
export class CachedBreakers implements Breakers {
  readonly #options: CachedBreakersOptions;
  readonly #known = new Map<string, Known>();
  readonly #probes = new WeakMap<Admission, string>();
  readonly #probing = new Map<string, string>();
  readonly #waiting = new Set<() => void>();
  readonly #subscription: Disposable;
  readonly #timer: NodeJS.Timeout;
  #polling = false;

  constructor(options: CachedBreakersOptions) {
    this.#options = options;
    this.#subscription = options.shared.onChange((target, state) => this.#observe(target, state));
    this.#timer = setInterval(() => void this.#poll(), pollMs);
    this.#timer.unref();
    void this.#poll();
  }

  async admit(target: string, maxInlineWaitMs: number, signal: AbortSignal): Promise<Admission> {
    const until = this.#now() + maxInlineWaitMs;
    for (;;) {
      signal.throwIfAborted();
      const known = this.#known.get(target);
      if (known?.openUntil === undefined) return { kind: 'closed' };
      const waitMs = known.openUntil - this.#now();
      if (waitMs > 0) return { kind: 'open', retryAfterMs: Math.ceil(waitMs) };
      const probedMs = known.probedUntil - this.#now();
      if (probedMs <= 0) {
        const admission = await this.#tryProbe(target, signal);
        if (admission) return admission;
        continue;
      }
      const leftMs = until - this.#now();
      if (leftMs <= 0) return { kind: 'open', retryAfterMs: Math.ceil(Math.min(probedMs, pollMs)) };
      await this.#changed(Math.min(leftMs, probedMs, pollMs), signal);
    }
  }

  async report(target: string, health: CallHealth, admission: Admission, policy: OpeningPolicy): Promise<void> {
    const { shared, log } = this.#options;
    const token = this.#probes.get(admission) ?? '';
    if (token) this.#probing.delete(token);
    try {
      if (health === 'failure') await this.#ask(target, shared.fail(target, token, policy));
      else if (health === 'neutral') {
        if (token) await this.#ask(target, shared.release(target, token));
      } else if (token || this.#known.has(target)) await this.#ask(target, shared.succeed(target, token));
    } catch (error) {
      log.debug({ err: error, target }, 'a call was not reported to the breaker');
    }
  }

  states(): ReadonlyMap<string, 'closed' | 'open' | 'half_open'> {
    const now = this.#now();
    return new Map(
      [...this.#known].map(([target, { openUntil, probedUntil }]) => {
        if (openUntil === undefined) return [target, 'closed'];
        return [target, probedUntil > now || openUntil <= now ? 'half_open' : 'open'];
      }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#subscription[Symbol.dispose]();
    for (const [token, target] of this.#probing) {
      await this.#inTime(this.#options.shared.release(target, token)).catch(() => undefined);
    }
  }

  /** Undefined: look again, another process has it or it is closed by now. */
  async #tryProbe(target: string, signal: AbortSignal): Promise<Admission | undefined> {
    const token = randomUUID();
    const asked = this.#options.shared.probe(target, token);
    try {
      const { mine } = await this.#ask(target, asked, signal);
      if (!mine) return undefined;
      const admission: Admission = { kind: 'probe' };
      this.#probes.set(admission, token);
      this.#probing.set(token, target);
      return admission;
    } catch (error) {
      // No call uses a probe that comes now.
      asked.then(({ mine }) => (mine ? this.#options.shared.release(target, token) : undefined)).catch(() => {});
      signal.throwIfAborted();
      this.#options.log.debug({ err: error, target }, 'the breaker could not be asked');
      return { kind: 'closed' };
    }
  }

  async #ask<T extends BreakerState>(target: string, asked: Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#known.get(target);
    const state = await this.#inTime(asked, signal);
    if (this.#known.get(target) === before) this.#learn(target, state);
    else this.#observe(target, state);
    return state;
  }

  /** Replies and changes come on different connections: what is older than what is known is ignored. */
  #observe(target: string, state: BreakerState): void {
    if (state.at >= (this.#known.get(target)?.at ?? 0)) this.#learn(target, state);
  }

  #learn(target: string, { failures, waitMs, probedMs, at }: BreakerState): void {
    const before = this.#known.get(target);
    if (failures === 0 && waitMs === undefined) this.#known.delete(target);
    else if (before || this.#known.size < maxKnown) {
      const now = this.#now();
      this.#known.set(target, {
        failures,
        openUntil: waitMs === undefined ? undefined : now + waitMs,
        probedUntil: now + probedMs,
        at,
      });
    }
    const isOpen = waitMs !== undefined;
    if (isOpen !== (before?.openUntil !== undefined)) {
      this.#options.log.warn(
        { target, failures, cooldownMs: isOpen ? waitMs : undefined },
        `breaker ${isOpen ? 'open' : 'closed'}`,
      );
    }
    for (const wake of this.#waiting) wake();
  }

  async #changed(ms: number, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const wake = () => stop.abort();
    this.#waiting.add(wake);
    signal.addEventListener('abort', wake, { once: true });
    try {
      await this.#options.clock.sleep(Math.max(1, ms), stop.signal).catch(() => {});
    } finally {
      this.#waiting.delete(wake);
      signal.removeEventListener('abort', wake);
    }
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    try {
      for (const [token, target] of this.#probing) await this.#options.shared.probe(target, token);
      const before = new Map(this.#known);
      const all = await this.#options.shared.all();
      for (const target of new Set([...all.keys(), ...before.keys()])) {
        // A change that arrived during the look is newer than what it read.
        if (this.#known.get(target) !== before.get(target)) continue;
        this.#learn(target, all.get(target) ?? { failures: 0, waitMs: undefined, probedMs: 0, at: 0 });
      }
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the breakers were not looked at');
    } finally {
      this.#polling = false;
    }
  }

  async #inTime<T>(asked: Promise<T>, signal?: AbortSignal): Promise<T> {
    const late = () => {
      throw new Error(`the store of the breakers did not answer within ${storeMs} ms`);
    };
    return await orLate(storeMs, asked, late, { clock: this.#options.clock, signal });
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }
}

const prefix = 'tool:';

/** Whose tool it is. `definition`: digest of the server's definition. */
export type ToolOwner =
  | { readonly kind: 'agent'; readonly agentId: string; readonly tool: string }
  | { readonly kind: 'server'; readonly server: string; readonly definition: string; readonly tool: string };

/**
 * The name of a tool's breaker, the same on every worker: `tool:<label>#<digest>`. A tool of the same name is another one
 * where its tenant, its agent, or the definition of its server is another one.
 */
export function toolBreaker(tenant: string, owner: ToolOwner): string {
  const { tool } = owner;
  const whose = owner.kind === 'server' ? owner.definition : owner.agentId;
  const label = owner.kind === 'server' ? `mcp:${owner.server}/${tool}` : tool;
  return `${prefix}${label}#${sha256(jsonText([tenant, owner.kind, whose, tool])).slice(0, 16)}`;
}

/**
 * The metric label of a breaker; undefined for one that is no tool's. It has only values that an operator has configured:
 * of a server's tool its server.
 */
export function toolBreakerLabel(target: string): string | undefined {
  if (!target.startsWith(prefix)) return undefined;
  const label = target.slice(prefix.length, target.lastIndexOf('#'));
  return label.startsWith('mcp:') ? label.slice(0, label.indexOf('/')) : label;
}
