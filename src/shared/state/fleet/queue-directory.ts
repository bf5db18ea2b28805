import { RunError } from '../../base/errors.ts';
import { pairsOf } from '../../base/pairs.ts';
import { defaultQueue } from '../../contract/queues.ts';
import type { RedisConnection } from '../connect.ts';
import type { Keys } from '../keys.ts';

/** A worker whose last heartbeat is older than this is gone. */
export const workerTtlMs = 15_000;
/** Queues and agents that no worker has announced for so long no longer exist. Longer than any deploy or outage. */
export const announcedTtlMs = 7 * 86_400_000;

const maxAgeMs = 2_000;
const maxNamed = 50;

/**
 * The queues that exist: those that an operator listed or, without a list, `runs` and every queue that a worker announced in
 * the last days. A queue whose workers are all gone, as in a rolling deploy, still exists: its runs wait. What was read is kept for two seconds,
 * so that accepting a run costs no read of its own.
 */
export class QueueDirectory {
  readonly #keys: Keys;
  readonly #listed: readonly string[] | undefined;
  #announcedAt: ReadonlyMap<string, number> = new Map();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(keys: Keys, listed: readonly string[] | undefined) {
    this.#keys = keys;
    this.#listed = listed;
  }

  /** Throws `unknown_queue`. Answers what the caller should know: nothing, or that no live worker serves the queue. */
  async check(queue: string, redis: RedisConnection): Promise<readonly string[]> {
    const isFresh = performance.now() - this.#readAt <= maxAgeMs;
    if (!(isFresh && this.#isServed(queue))) await this.#read(redis);
    if (!this.#has(queue)) throw this.#unknown(queue);
    if (this.#isServed(queue)) return [];
    return [`no live worker serves queue ${queue}: the run waits until one does`];
  }

  /** All of them. */
  async names(redis: RedisConnection): Promise<readonly string[]> {
    await this.#read(redis);
    return this.#names();
  }

  #has(queue: string): boolean {
    if (this.#listed) return this.#listed.includes(queue);
    return queue === defaultQueue || this.#announcedAt.has(queue);
  }

  #isServed(queue: string): boolean {
    return (this.#announcedAt.get(queue) ?? 0) >= Date.now() - workerTtlMs;
  }

  #names(): readonly string[] {
    return [...new Set(this.#listed ?? [defaultQueue, ...this.#announcedAt.keys()])].sort();
  }

  #unknown(queue: string): RunError {
    const queues = this.#names().slice(0, maxNamed);
    const remedy = this.#listed ? 'the operator lists them in MILLRACE_QUEUES' : 'a worker announces its WORKER_QUEUES';
    return new RunError('unknown_queue', `there is no queue ${queue}; there are ${queues.join(', ')}: ${remedy}`, {
      details: { path: 'queue', queues },
    });
  }

  async #read(redis: RedisConnection): Promise<void> {
    const flat = await redis.zrange(this.#keys.queues, 0, '-1', 'WITHSCORES');
    this.#announcedAt = new Map(pairsOf(flat).map(([queue, at]) => [queue, Number(at)]));
    this.#readAt = performance.now();
  }
}
