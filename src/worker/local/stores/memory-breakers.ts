import type { Clock } from '../../../shared/base/clock.ts';
import { silentLog, type Log } from '../../../shared/base/log.ts';
import type { Breakers } from '../../../shared/state/limits/breaker-port.ts';
import {
  CachedBreakers,
  probeLeaseMs,
  type BreakerState,
  type SharedBreakers,
} from '../../../shared/state/limits/breakers.ts';

/** The breakers of one process. They keep the promises of the Redis ones, except that nothing outlives the process. */
export function memoryBreakers({ clock, log = silentLog }: { readonly clock: Clock; readonly log?: Log }): Breakers {
  return new CachedBreakers({ shared: new MemorySharedBreakers(clock), clock, log });
}

interface Row {
  failures: number;
  openUntil: number | undefined;
  probe: string;
  probeUntil: number;
}

/** Breakers that several users of one process share. */
export class MemorySharedBreakers implements SharedBreakers {
  readonly #clock: Clock;
  readonly #rows = new Map<string, Row>();
  readonly #listeners = new Set<(target: string, state: BreakerState) => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async fail(target: string, token: string, policy: { failureThreshold: number; cooldownMs: number }) {
    const row = this.#row(target);
    const openUntil = this.#clock.monotonic() + policy.cooldownMs;
    row.failures += 1;
    if (this.#isProbe(row, token)) Object.assign(row, { probe: '', openUntil });
    else if (row.openUntil === undefined && row.failures >= policy.failureThreshold) row.openUntil = openUntil;
    return this.#changed(target, row);
  }

  async succeed(target: string, token: string) {
    const row = this.#row(target);
    if (!this.#isProbe(row, token) && row.openUntil !== undefined) return this.#stateOf(row);
    Object.assign(row, { failures: 0, openUntil: undefined, probe: '' });
    return this.#changed(target, row);
  }

  async probe(target: string, token: string) {
    const row = this.#row(target);
    const now = this.#clock.monotonic();
    const isDue = row.openUntil !== undefined && row.openUntil <= now;
    const mine = isDue && (row.probe === '' || row.probeUntil <= now || row.probe === token);
    if (mine) Object.assign(row, { probe: token, probeUntil: now + probeLeaseMs });
    return { ...(mine ? this.#changed(target, row) : this.#stateOf(row)), mine };
  }

  async release(target: string, token: string) {
    const row = this.#row(target);
    if (!this.#isProbe(row, token)) return this.#stateOf(row);
    row.probe = '';
    return this.#changed(target, row);
  }

  async all() {
    return new Map([...this.#rows].map(([target, row]) => [target, this.#stateOf(row)]));
  }

  onChange(listener: (target: string, state: BreakerState) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  #row(target: string): Row {
    return this.#rows.get(target) ?? { failures: 0, openUntil: undefined, probe: '', probeUntil: 0 };
  }

  #isProbe({ probe, probeUntil }: Row, token: string): boolean {
    return token !== '' && probe === token && probeUntil > this.#clock.monotonic();
  }

  #stateOf({ failures, openUntil, probe, probeUntil }: Row): BreakerState {
    const now = this.#clock.monotonic();
    return {
      failures,
      waitMs: openUntil === undefined ? undefined : Math.max(0, openUntil - now),
      probedMs: probe === '' ? 0 : Math.max(0, probeUntil - now),
      at: now * 1_000,
    };
  }

  #changed(target: string, row: Row): BreakerState {
    if (row.failures === 0 && row.openUntil === undefined) this.#rows.delete(target);
    else this.#rows.set(target, row);
    const state = this.#stateOf(row);
    for (const listener of this.#listeners) listener(target, state);
    return state;
  }
}
