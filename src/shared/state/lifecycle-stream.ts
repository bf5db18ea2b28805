import { RunError } from '../base/errors.ts';
import { orLate } from '../base/deadline.ts';
import { loadScript, runScript, type LifecycleTarget, type RunKeySpace } from './script.ts';
import { moveAuditEntry, noteAudit } from './audit/audit-stream.ts';
import { redisError } from './errors.ts';

const dropScript = loadScript(import.meta.url, './drop-published.lua');

/** A caller waits no longer than this for a stream on another node. */
const maxInlineWaitMs = 1_000;
/** A stream that refused or did not answer is not asked again for this long, so that work for other nodes is not delayed. */
const pauseMs = 2_000;
const pageSize = 100;

type Space = Pick<RunKeySpace, 'redis' | 'keys' | 'cluster'>;

/**
 * The stream of all runs' lifecycle events, and those of the tenants' audits. They belong to no run, so in a Cluster no script
 * that writes to a run can reach them: there the scripts add to a stream of the run itself, in the same step as everything else,
 * and `publish` moves what is there. The reconciler publishes what remained with a run, which is listed in `checks` until then.
 * A lifecycle event may be published twice when a process dies in between, or two publish at the same time; an audit entry is
 * not. Neither is ever left out.
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

  async auditKeyFor(runId: string, tenant: string): Promise<string> {
    const { keys, cluster } = this.#space;
    if (cluster) return keys.unpublished(runId);
    await noteAudit(this.#space, tenant);
    return keys.audit(tenant);
  }

  /** One call of this process at a time for a run. */
  async publish(runId: string): Promise<boolean> {
    if (!this.#space.cluster) return true;
    const before = this.#underWay.get(runId);
    const move = async () => await this.#moveEvents(runId);
    // The call before reports its own error. This one moves what that one left.
    const underWay = before ? before.then(move, move) : move();
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

  async #moveEvents(runId: string): Promise<void> {
    const { redis, keys } = this.#space;
    for (;;) {
      if (performance.now() < this.#pausedUntil) throw new RunError('queue_unavailable', 'the stream is not asked now');
      const entries = await redis.xrange(keys.unpublished(runId), '-', '+', 'COUNT', pageSize);
      // In order, and none after one that failed.
      for (const [id, [field, json = '']] of entries)
        await (field === 'a'
          ? moveAuditEntry(this.#space, { id, runId, json })
          : redis.xadd(keys.lifecycle, 'MAXLEN', '~', 100_000, '*', 'e', json));
      const ids = entries.map(([id]) => id);
      if (ids.length > 0)
        await runScript(redis, dropScript, [keys.unpublished(runId)], ids, { doing: 'removal of lifecycle events' });
      if (entries.length < pageSize) return;
    }
  }
}
