import type { CancelRequest } from '../../shared/control.ts';
import { redisError } from '../../shared/redis-error.ts';
import { recordFromHash, type RunRecord } from '../../shared/run.ts';
import type { Claim, ClaimRequest, Commit, CommitReply, OutgoingEvent, Ownership, RunStore } from '../ports.ts';
import { claimRun } from './redis-claim.ts';
import { commitRun } from './redis-commit.ts';
import { FlushGatherer } from './redis-flush.ts';
import type { RedisRunsOptions } from './redis-layout.ts';
import { checkClaimEvents, checkCommit } from './rules.ts';
import { readCancel } from './wire.ts';

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
    return Object.keys(hash).length === 0 ? undefined : recordFromHash(hash);
  }

  async pendingCancels(): Promise<ReadonlyMap<string, CancelRequest>> {
    const { redis, keys } = this.#options;
    try {
      const runIds = await redis.smembers(keys.cancels);
      const texts = await Promise.all(runIds.map((runId) => redis.hget(keys.run(runId), 'cancel')));
      return this.#readCancels(runIds, texts);
    } catch (error) {
      throw redisError(error, 'read of pending cancels');
    }
  }

  /** One unreadable request must not keep the others from being heard. */
  #readCancels(runIds: readonly string[], texts: readonly (string | null)[]): Map<string, CancelRequest> {
    const cancels = new Map<string, CancelRequest>();
    for (const [index, runId] of runIds.entries()) {
      const text = texts[index];
      if (!text) continue;
      try {
        cancels.set(runId, readCancel(text, runId));
      } catch (err) {
        this.#options.log.warn({ err, runId }, 'cancel request ignored');
      }
    }
    return cancels;
  }
}
