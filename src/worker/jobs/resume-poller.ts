import { repeat } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import { isTerminalStatus } from '../../shared/contract/run.ts';
import type { RateLimiter } from '../../shared/state/limits/rate/rate-limiter.ts';
import type { Ledger } from '../../shared/state/money/ledger.ts';
import type { Waits, Resumption } from '../../shared/state/run/waits/waits.ts';
import type { RunStore } from '../../shared/state/run/run-store.ts';
import type { RunQueues } from '../../shared/state/fleet/queues.ts';

export interface ResumePollerDeps {
  readonly runs: Pick<RunStore, 'load'>;
  readonly waits: Waits;
  readonly rateLimiter: RateLimiter;
  readonly ledger: Ledger;
  readonly queues: RunQueues;
  readonly log: Log;
}

/** How often the wait queues are polled, in milliseconds. Every worker polls; each due run is given to one of them. */
const turnsEveryMs = 200;
const timersEveryMs = 500;
const moneyEveryMs = 2_000;
const timersAtOnce = 100;

/**
 * Queues suspended runs again when what they wait for has come: a permit of a provider, money, or a time. A run that is resumed
 * without need checks for itself and waits again.
 */
export class ResumePoller implements AsyncDisposable {
  readonly #deps: ResumePollerDeps;
  readonly #polls: readonly AsyncDisposable[];
  readonly #inFlight = new Set<Promise<void>>();

  constructor(deps: ResumePollerDeps) {
    this.#deps = deps;
    const { waits, rateLimiter, ledger } = deps;
    this.#polls = [
      this.#every(turnsEveryMs, 'turns', 'its turn at the provider has come', () => rateLimiter.dispatch()),
      this.#every(timersEveryMs, 'timers', 'its time has come', () => waits.due(timersAtOnce)),
      this.#every(moneyEveryMs, 'money', 'there is money for it now', () => ledger.dispatch()),
    ];
  }

  /** Returns at once; a failure is logged, and the wait queue of the run gives it out again. */
  wake(runId: string, summary: string): void {
    const done = this.#resume(runId, { summary }).catch((error: unknown) => {
      this.#deps.log.warn({ err: error, runId }, 'a waiting run could not be resumed');
    });
    this.#inFlight.add(done);
    void done.finally(() => this.#inFlight.delete(done));
  }

  async #resume(runId: string, resumption: Resumption): Promise<void> {
    const { waits, queues, rateLimiter, runs } = this.#deps;
    const resumed = await waits.resume(runId, resumption);
    if (resumed) {
      await queues.add(resumed.queue, { runId, kind: resumed.kind, segment: resumed.segment }, { first: true });
      return;
    }
    // A run that is running already asks for its permit. An ended one does not: its position is freed.
    const record = await runs.load(runId);
    if (record && !isTerminalStatus(record.status)) return;
    await rateLimiter.leave(runId);
    await waits.clear(runId);
  }

  #every(ms: number, name: string, summary: string, poll: () => Promise<readonly string[]>): AsyncDisposable {
    const resumeDue = async () => {
      for (const runId of await poll()) this.wake(runId, summary);
    };
    return repeat(ms, resumeDue, (err) => this.#deps.log.debug({ err }, `waiting runs could not be polled: ${name}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const poll of this.#polls) void poll[Symbol.asyncDispose]();
    await Promise.all(this.#inFlight);
  }
}
