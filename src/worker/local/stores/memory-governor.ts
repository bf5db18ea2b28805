import type { Clock } from '../../../shared/base/clock.ts';
import type { ProviderLimits } from '../../../shared/contract/limits.ts';
import type { GrantRequest } from '../../../shared/state/limits/rate/rate-limiter.ts';
import {
  PolledGovernor,
  type Ask,
  type GovernorObserver,
  type Limiters,
  type Settling,
  type Waiting,
} from '../../../shared/state/limits/rate/polled-limiter.ts';
import { MemoryLimiter } from './memory-limiter.ts';

/** The governor of one process. It keeps the promises of the Redis one, except that nothing outlives the process. */
export function memoryGovernor(options: {
  readonly clock: Clock;
  readonly observe?: GovernorObserver;
}): PolledGovernor {
  return new PolledGovernor({ ...options, limiters: new MemoryLimiters(options.clock) });
}

/** Limiters that governors of one process share. */
export class MemoryLimiters implements Limiters {
  readonly #clock: Clock;
  readonly #limiters = new Map<string, MemoryLimiter>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async ask(ask: Ask) {
    return this.#limiter(ask.request.limiter).ask(ask);
  }

  async poll(limiter: string, limits: ProviderLimits, waiting: readonly Waiting[], grantIds: readonly string[]) {
    return this.#limiter(limiter).poll(limits, waiting, grantIds);
  }

  async stepAway(limiter: string, waiting: Waiting) {
    return this.#limiter(limiter).stepAway(waiting);
  }

  async park(request: GrantRequest): Promise<void> {
    this.#limiter(request.limiter).park(request);
  }

  async leave(runId: string): Promise<void> {
    for (const limiter of this.#limiters.values()) limiter.leave(runId);
  }

  async settle(settling: Settling) {
    return this.#limiter(settling.limiter).settle(settling);
  }

  async pump(): Promise<ReadonlyMap<string, readonly string[]>> {
    return new Map([...this.#limiters].map(([name, limiter]) => [name, limiter.idle ? [] : limiter.pump()]));
  }

  #limiter(name: string): MemoryLimiter {
    const known = this.#limiters.get(name);
    if (known) return known;
    const limiter = new MemoryLimiter(() => this.#clock.now());
    this.#limiters.set(name, limiter);
    return limiter;
  }
}
