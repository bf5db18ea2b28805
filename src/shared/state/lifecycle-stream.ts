import { RunError } from '../base/errors.ts';
import { orLate } from '../base/deadline.ts';
import type { RedisConnection } from './connect.ts';
import { loadScript, runScript, type LifecycleTarget } from './script.ts';
import type { Keys } from './keys.ts';
import { redisError } from './errors.ts';

const dropScript = loadScript(import.meta.url, './drop-published.lua');

/** Nobody waits longer than this for a stream on another node. */
const maxInlineWaitMs = 1_000;
/** A stream that refused or did not answer is left alone for this long, so that work for other nodes is not held up. */
const pauseMs = 2_000;
const pageSize = 100;

interface Space {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly cluster: boolean;
}

/**
 * The stream of all runs' lifecycle events. It belongs to no run, so in a Cluster no script that writes to a run can reach
 * it: there the scripts add to a stream of the run itself, in the same step as everything else, and `tell` takes them over.
 * What was not taken over stays with the run. The reconciler tells it, and until then the run stays listed in `checks`. An
 * event may be told twice when a process dies in between, or two tell at the same time; it is never left out.
 */
export class LifecycleStream implements LifecycleTarget {
  readonly #space: Space;
  readonly #onError: (error: RunError, runId: string) => void;
  readonly #underWay = new Map<string, Promise<void>>();
  #pausedUntil = 0;

  constructor(space: Space, onError: (error: RunError, runId: string) => void = () => {}) {
    this.#space = space;
    this.#onError = onError;
  }

  keyOf(runId: string): string {
    const { keys, cluster } = this.#space;
    return cluster ? keys.unpublished(runId) : keys.lifecycle;
  }

  /** Takes over what is left of a run, one call of this process at a time. False: some of it is still there. Never rejects. */
  async publish(runId: string): Promise<boolean> {
    if (!this.#space.cluster) return true;
    const before = this.#underWay.get(runId);
    const takeOver = async () => await this.#takeOver(runId);
    // How the one before ended is told by whoever asked for it. What it left is taken over here.
    const underWay = before ? before.then(takeOver, takeOver) : takeOver();
    this.#underWay.set(runId, underWay);
    const forget = () => this.#underWay.get(runId) === underWay && this.#underWay.delete(runId);
    underWay.then(forget, forget);
    try {
      await orLate(maxInlineWaitMs, underWay, () => {
        throw new RunError('queue_unavailable', 'the stream of lifecycle events did not take them in time');
      });
      return true;
    } catch (error) {
      if (performance.now() < this.#pausedUntil) return false;
      this.#pausedUntil = performance.now() + pauseMs;
      // The client's own error carries the arguments of the command, and with them what a model wrote.
      this.#onError(redisError(error, 'add of lifecycle events'), runId);
      return false;
    }
  }

  async #takeOver(runId: string): Promise<void> {
    const { redis, keys } = this.#space;
    for (;;) {
      if (performance.now() < this.#pausedUntil) throw new RunError('queue_unavailable', 'the stream is left alone');
      const entries = await redis.xrange(keys.unpublished(runId), '-', '+', 'COUNT', pageSize);
      // In order, and none after one that failed.
      for (const [, [, json = '']] of entries) await redis.xadd(keys.lifecycle, 'MAXLEN', '~', 100_000, '*', 'e', json);
      const ids = entries.map(([id]) => id);
      if (ids.length > 0)
        await runScript(redis, dropScript, [keys.unpublished(runId)], ids, { doing: 'removal of lifecycle events' });
      if (entries.length < pageSize) return;
    }
  }
}
