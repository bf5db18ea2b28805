import { storedCancel, type CancelRequest } from '../../contract/control.ts';
import { redisError } from '../errors.ts';
import { legibleRecord } from '../../contract/legible-record.ts';
import type { RunRecord } from '../../contract/run.ts';
import type { Claim, ClaimRequest, Commit, CommitReply, OutgoingEvent, Ownership, RunStore } from './run-store.ts';
import { claimRun } from './redis-claim.ts';
import { commitRun } from './redis-commit.ts';
import { FlushGatherer } from './redis-flush.ts';
import { checkClaimEvents, checkCommit } from '../rules.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { RunPlace } from '../script.ts';

export type RedisRunsOptions = RunPlace & { readonly clock: Clock; readonly log: Log };

/**
 * The run store in Redis: a hash, a journal list and an event stream per run, written by three scripts. A reply that
 * was lost is asked for again by the connection itself; every script answers such a repeat like the first time.
 * One call at a time per run, commit or flush: a second one would not know its number.
 */
export class RedisRuns implements RunStore {
  readonly #options: RedisRunsOptions;
  readonly #flushes: FlushGatherer;

  constructor(options: RedisRunsOptions) {
    this.#options = options;
    this.#flushes = new FlushGatherer(options);
  }

  async claim(
    request: ClaimRequest,
    opening: readonly OutgoingEvent[],
    recovering: readonly OutgoingEvent[],
  ): Promise<Claim> {
    checkClaimEvents(opening, recovering);
    return await claimRun(this.#options, request, opening, recovering);
  }

  async commit(ownership: Ownership, commit: Commit): Promise<CommitReply> {
    checkCommit(ownership.runId, commit);
    return await commitRun(this.#options, ownership, commit);
  }

  async flush({ runId }: Ownership, seq: number, events: readonly OutgoingEvent[]): Promise<CommitReply> {
    if (events.length === 0) return { kind: 'ok', seq };
    return await this.#flushes.flush(runId, seq, events);
  }

  async load(runId: string): Promise<RunRecord | undefined> {
    const { redis, keys } = this.#options;
    const hash = await redis.hgetall(keys.run(runId)).catch((error: unknown) => {
      throw redisError(error, `load of run ${runId}`);
    });
    return Object.keys(hash).length === 0 ? undefined : legibleRecord(hash);
  }

  async pendingCancels(): Promise<ReadonlyMap<string, CancelRequest>> {
    const { redis, keys } = this.#options;
    try {
      const runIds = await redis.smembers(keys.cancels);
      const texts = await Promise.all(runIds.map((runId) => redis.hget(keys.run(runId), 'cancel')));
      return new Map(
        runIds.flatMap((runId, index) => {
          const text = texts[index];
          return text ? [[runId, storedCancel(text)] as const] : [];
        }),
      );
    } catch (error) {
      throw redisError(error, 'read of pending cancels');
    }
  }
}
