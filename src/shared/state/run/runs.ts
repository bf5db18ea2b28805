import { storedCancel } from '../../contract/control.ts';
import { legibleRecord } from '../../contract/legible-record.ts';
import type { RunStore } from './run-store.ts';
import { claimRun } from './claim.ts';
import { commitRun } from './commit.ts';
import { FlushGatherer } from './flush.ts';
import { checkClaimEvents, checkCommit } from './rules.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RunKeySpace } from '../script.ts';
import { withNamedErrors } from '../errors.ts';

export type RedisRunsOptions = RunKeySpace & { readonly clock: Clock; readonly log: Log };

/**
 * The run store in Redis: a hash, a journal list and an event stream per run, written by three scripts. A reply that
 * was lost is asked for again by the connection itself; every script answers such a repeat like the first time.
 * One call at a time per run, commit or flush: a second one would not know its number.
 */
export function redisRuns(space: RedisRunsOptions): RunStore {
  const { redis, keys } = space;
  const flushes = new FlushGatherer(space);
  return withNamedErrors<RunStore>('runs', {
    async claim(request, opening, recovering) {
      checkClaimEvents(opening, recovering);
      return await claimRun(space, request, opening, recovering);
    },
    async commit(ownership, commit) {
      checkCommit(ownership.runId, commit);
      return await commitRun(space, ownership, commit);
    },
    async flush({ runId }, seq, events) {
      return events.length === 0 ? { kind: 'ok', seq } : await flushes.flush(runId, seq, events);
    },
    async load(runId) {
      const hash = await redis.hgetall(keys.run(runId));
      return Object.keys(hash).length === 0 ? undefined : legibleRecord(hash);
    },
    async pendingCancels() {
      const runIds = await redis.smembers(keys.cancels);
      const texts = await Promise.all(runIds.map((runId) => redis.hget(keys.run(runId), 'cancel')));
      return new Map(
        runIds.flatMap((runId, index) => {
          const text = texts[index];
          return text ? [[runId, storedCancel(text)] as const] : [];
        }),
      );
    },
  });
}
