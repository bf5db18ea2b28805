import { repeat } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import { isTerminalStatus } from '../../shared/contract/run.ts';
import type { RateLimiter } from '../../shared/state/limits/rate/rate-limiter.ts';
import type { Ledger } from '../../shared/state/money/ledger.ts';
import type { Waits } from '../../shared/state/run/waits/waits.ts';
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
export function pollForResumes({ runs, waits, rateLimiter, ledger, queues, log }: ResumePollerDeps) {
  const inFlight = new Set<Promise<void>>();
  const resume = async (runId: string, summary: string) => {
    const resumed = await waits.resume(runId, { summary });
    if (resumed) {
      await queues.add(resumed.queue, { runId, kind: resumed.kind, segment: resumed.segment }, { first: true });
      return;
    }
    // A run that is running already asks for its permit. An ended one does not: its position is freed.
    const record = await runs.load(runId);
    if (record && !isTerminalStatus(record.status)) return;
    await rateLimiter.leave(runId);
    await waits.clear(runId);
  };
  /** Returns at once; a failure is logged, and the wait queue of the run gives it out again. */
  const wake = (runId: string, summary: string): void => {
    const done = resume(runId, summary).catch((error: unknown) => {
      log.warn({ err: error, runId }, 'a waiting run could not be resumed');
    });
    inFlight.add(done);
    void done.finally(() => inFlight.delete(done));
  };
  const every = (ms: number, name: string, summary: string, poll: () => Promise<readonly string[]>) => {
    const resumeDue = async () => {
      for (const runId of await poll()) wake(runId, summary);
    };
    return repeat(ms, resumeDue, (err) => log.debug({ err }, `waiting runs could not be polled: ${name}`));
  };
  const polls = [
    every(turnsEveryMs, 'turns', 'its turn at the provider has come', () => rateLimiter.dispatch()),
    every(timersEveryMs, 'timers', 'its time has come', () => waits.due(timersAtOnce)),
    every(moneyEveryMs, 'money', 'there is money for it now', () => ledger.dispatch()),
  ];
  return {
    wake,
    async [Symbol.asyncDispose]() {
      for (const poll of polls) void poll[Symbol.asyncDispose]();
      await Promise.all(inFlight);
    },
  };
}
