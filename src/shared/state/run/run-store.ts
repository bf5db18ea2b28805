import { storedCancel, type CancelRequest } from '../../contract/control.ts';
import { loadRun } from './open-runs.ts';
import { checkClaimEvents, claimRun, type Claim, type ClaimRequest } from './claim.ts';
import { checkCommit, commitRun, type Commit, type CommitReply, type Ownership } from './commit.ts';
import { gatheredFlush } from './flush.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RunKeySpace, OutgoingEvent } from '../script.ts';
import { withNamedErrors } from '../errors.ts';
import type { RunRecord } from '../../contract/run.ts';

/**
 * Runs, their journals and their event logs. Kept in Redis by `redisRuns`, in memory by `local/stores/in-memory.ts`;
 * both pass `test/contract/run-store.ts`. Throws `queue_unavailable` when the store cannot be reached.
 */
export interface RunStore {
  /**
   * Claims the run: new owner, status running, and in the same step its events: `opening` for the first claim, `recovering`
   * otherwise. Events that its children relayed since it was suspended enter its log before these. Because a claim always adds
   * an event, a stale writer's next event number is already taken: that is what fences `flush`.
   */
  claim(request: ClaimRequest, opening: readonly OutgoingEvent[], recovering: readonly OutgoingEvent[]): Promise<Claim>;
  /** Writes under the ownership. One call at a time per run. */
  commit(ownership: Ownership, commit: Commit): Promise<CommitReply>;
  /**
   * Adds events alone, after number `seq`. Cheaper than a commit: the flushes of several runs within one tick are sent together
   * and no field is read. A number that is already taken answers `fenced`, unless it is this very flush sent twice.
   */
  flush(ownership: Ownership, seq: number, events: readonly OutgoingEvent[]): Promise<CommitReply>;
  /** The record, or undefined. */
  load(runId: string): Promise<RunRecord | undefined>;
  /** The runs with an open cancel request, from one cheap read. */
  pendingCancels(): Promise<ReadonlyMap<string, CancelRequest>>;
}

export type RedisRunsOptions = RunKeySpace & { readonly clock: Clock; readonly log: Log };

/**
 * The run store in Redis: a hash, a journal list and an event stream per run, written by three scripts. A reply that
 * was lost is asked for again by the connection itself; every script answers such a repeat like the first time.
 * One call at a time per run, commit or flush: a second one would not know its number.
 */
export function redisRuns(space: RedisRunsOptions): RunStore {
  const { redis, keys } = space;
  const flush = gatheredFlush(space);
  return withNamedErrors<RunStore>('runs', {
    async claim(request, opening, recovering) {
      checkClaimEvents(opening, recovering);
      return await claimRun(space, request, opening, recovering);
    },
    async commit(ownership, commit) {
      checkCommit(ownership.runId, commit);
      return await commitRun(space, ownership, commit);
    },
    async flush(ownership, seq, events) {
      return events.length === 0 ? { kind: 'ok', seq } : await flush(ownership, seq, events);
    },
    load: async (runId) => await loadRun(runId, space),
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
