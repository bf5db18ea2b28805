import { systemClock } from '../../../shared/base/clock.ts';
import { isTerminalStatus } from '../../../shared/contract/plain/ends.ts';
import type { RunOutcomeView } from '../../../shared/contract/run.ts';
import type { ResultOptions } from '../options.ts';
import { at, isPassingTrouble, pauseAfter, type Link } from './link.ts';

/** What one request waits for. Producers allow 60 seconds, proxies often less. */
const longestWaitS = 30;
const shortestWaitS = 5;
/** How much later than that the answer may come. */
const roomMs = 15_000;
const maxOutageMs = 60_000;

/** The outcome once the run has ended, or as it is after `waitMs`: one long request after another. */
export async function waitRemote(link: Link, runId: string, options: ResultOptions): Promise<RunOutcomeView> {
  const { waitMs = Infinity, signal } = options;
  const until = systemClock.monotonic() + waitMs;
  const look = async (waitS: number) =>
    await link.json<RunOutcomeView>({
      path: at`/v1/runs/${runId}/result`,
      query: { wait: waitS.toFixed(3) },
      answerMs: waitS * 1_000 + roomMs,
      signal,
    });
  let known = await look(0);
  let waitS = longestWaitS;
  let failures = 0;
  let quietSince = systemClock.monotonic();
  for (;;) {
    const leftMs = until - systemClock.monotonic();
    if (isTerminalStatus(known.status) || leftMs <= 0) return known;
    try {
      const askedAt = systemClock.monotonic();
      known = await look(Math.min(waitS, leftMs / 1_000));
      quietSince = systemClock.monotonic();
      // A producer that drains answers before its time.
      failures = quietSince - askedAt < 1_000 ? failures + 1 : 0;
    } catch (error) {
      if (!isPassingTrouble(error)) throw error;
      // When the wait ends while no producer is there, the last state that is known is the answer.
      if (systemClock.monotonic() >= until) return known;
      if (systemClock.monotonic() - quietSince > maxOutageMs) throw error;
      link.onError(error);
      failures++;
      // A proxy that cuts long requests lets shorter ones through.
      waitS = Math.max(shortestWaitS, waitS / 2);
    }
    if (failures > 0)
      await pauseUntil(link, Math.min(pauseAfter(failures - 1), until - systemClock.monotonic()), signal);
  }
}

async function pauseUntil(link: Link, ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (ms > 0) await link.pause(ms, signal);
}
