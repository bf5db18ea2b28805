import type { Clock } from '../../../shared/base/clock.ts';
import { threadNotFound } from '../../../shared/contract/thread/thread.ts';
import type { ThreadStore } from '../../../shared/state/thread/threads.ts';
import { InMemoryThread } from './in-memory-thread.ts';

/** Threads that are kept; of those that are not locked the longest unchanged make room. */
const maxThreads = 1_000;

/** The threads of one process. `wake` is called with the run whose turn it is. */
export function inMemoryThreads(clock: Clock, wake: (runId: string) => Promise<void> = async () => {}): ThreadStore {
  const threads = new ThreadMap(clock);
  return {
    enter: async ({ tenant, threadId, runId, agentId, onBusy = 'queue' }) =>
      threads.open(tenant, threadId).enter(runId, agentId, onBusy),
    acquire: async ({ tenant, threadId, runId, agentId, epoch }) =>
      threads.open(tenant, threadId).acquire(runId, agentId, epoch),
    append: async (lock, op, entries, patch = {}) =>
      threads.get(lock.tenant, lock.threadId)?.append(lock, op, entries, patch) ?? { kind: 'fenced' },
    suspend: async (lock) => threads.get(lock.tenant, lock.threadId)?.suspend(lock) ?? 'fenced',
    leave: async (tenant, threadId, runId, epoch) => threads.open(tenant, threadId).leave({ runId, epoch }),
    async releaseToNext(tenant, threadId, leaver) {
      const next = threads.get(tenant, threadId)?.leave(leaver).next;
      if (next !== undefined) await wake(next);
    },
    context: async (tenant, threadId, lockOwner) => threads.find(tenant, threadId).context(lockOwner),
    get: async (tenant, threadId) => threads.find(tenant, threadId).info,
    async read(tenant, threadId, { after = 0, before = Infinity, limit, order = 'asc' }) {
      const within = threads.find(tenant, threadId).entries.filter(({ seq }) => seq > after && seq < before);
      const ordered = order === 'asc' ? within : within.toReversed();
      return { entries: ordered.slice(0, limit), more: ordered.length > limit };
    },
    update: async (tenant, threadId, patch) => threads.find(tenant, threadId).change(patch),
    emit: async ({ tenant, threadId }, ...event) => threads.get(tenant, threadId)?.emit(...event),
    async events({ tenant, threadId }, { after = 0, limit }) {
      const newer = threads.find(tenant, threadId).events.filter(({ sequenceNumber }) => sequenceNumber > after);
      return { events: newer.slice(0, limit), more: newer.length > limit };
    },
    async due(limit) {
      const all = threads.all.flatMap((thread) => thread.due() ?? []);
      const due = all.toSorted((a, b) => Number(a.dueAt) - Number(b.dueAt));
      return { threads: due.slice(0, limit), unreachable: [], more: due.length > limit };
    },
    async lookAgain(again) {
      for (const { tenant, threadId, dueAt, nextMs } of again) threads.get(tenant, threadId)?.lookAgain(dueAt, nextMs);
    },
  };
}

/** The threads of all tenants. */
class ThreadMap {
  readonly #clock: Clock;
  readonly #threads = new Map<string, InMemoryThread>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get all(): InMemoryThread[] {
    return [...this.#threads.values()];
  }

  get(tenant: string, threadId: string): InMemoryThread | undefined {
    return this.#threads.get(nameOf(tenant, threadId));
  }

  /** Throws `not_found`. */
  find(tenant: string, threadId: string): InMemoryThread {
    const thread = this.get(tenant, threadId);
    if (!thread?.exists) throw threadNotFound(threadId);
    return thread;
  }

  /** The thread, a new one where there is none. */
  open(tenant: string, threadId: string): InMemoryThread {
    const known = this.get(tenant, threadId);
    if (known) return known;
    const idle = this.#threads.size < maxThreads ? [] : this.all.filter(({ runs }) => runs.length === 0);
    const oldest = idle.toSorted((a, b) => a.changedAtMs - b.changedAtMs)[0];
    if (oldest) this.#threads.delete(nameOf(oldest.tenant, oldest.threadId));
    const thread = new InMemoryThread(tenant, threadId, this.#clock);
    this.#threads.set(nameOf(tenant, threadId), thread);
    return thread;
  }
}

function nameOf(tenant: string, threadId: string): string {
  return `${tenant}\n${threadId}`;
}
