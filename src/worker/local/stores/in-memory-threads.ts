import type { Clock } from '../../../shared/base/clock.ts';
import { threadNotFound } from '../../../shared/contract/thread/thread.ts';
import type { ThreadStore } from '../../../shared/state/thread/threads.ts';
import { InMemoryThread } from './in-memory-thread.ts';

/** Threads that are kept; of those that are not locked the longest unchanged make room. */
const maxThreads = 1_000;

/** The threads of one process. `wake` is called with the run whose turn it is. */
export function inMemoryThreads(clock: Clock, wake: (runId: string) => Promise<void> = async () => {}): ThreadStore {
  const threads = new Map<string, InMemoryThread>();
  const known = (tenant: string, threadId: string) => threads.get(nameOf(tenant, threadId));

  /** Throws `not_found`. */
  function find(tenant: string, threadId: string): InMemoryThread {
    const thread = known(tenant, threadId);
    if (!thread?.exists) throw threadNotFound(threadId);
    return thread;
  }

  /** The thread, a new one where there is none. */
  function open(tenant: string, threadId: string): InMemoryThread {
    const thread = known(tenant, threadId) ?? new InMemoryThread(tenant, threadId, clock);
    const name = nameOf(tenant, threadId);
    const idle = threads.has(name) || threads.size < maxThreads ? [] : [...threads].filter(([, one]) => !one.runs[0]);
    const [oldest] = idle.toSorted(([, a], [, b]) => a.changedAtMs - b.changedAtMs);
    if (oldest) threads.delete(oldest[0]);
    threads.set(name, thread);
    return thread;
  }

  return {
    enter: async ({ tenant, threadId, runId, agentId, onBusy = 'queue' }) =>
      open(tenant, threadId).enter(runId, agentId, onBusy),
    acquire: async ({ tenant, threadId, runId, agentId, epoch }) =>
      open(tenant, threadId).acquire(runId, agentId, epoch),
    append: async (lock, op, entries, patch = {}) =>
      known(lock.tenant, lock.threadId)?.append(lock, op, entries, patch) ?? { kind: 'fenced' },
    suspend: async (lock) => known(lock.tenant, lock.threadId)?.suspend(lock) ?? 'fenced',
    leave: async (tenant, threadId, runId, epoch) => open(tenant, threadId).leave({ runId, epoch }),
    async releaseToNext(tenant, threadId, leaver) {
      const next = known(tenant, threadId)?.leave(leaver).next;
      if (next !== undefined) await wake(next);
    },
    context: async (tenant, threadId, lockOwner) => find(tenant, threadId).context(lockOwner),
    get: async (tenant, threadId) => find(tenant, threadId).info,
    async read(tenant, threadId, { after = 0, before = Infinity, limit, order = 'asc' }) {
      const within = find(tenant, threadId).entries.filter(({ seq }) => seq > after && seq < before);
      const ordered = order === 'asc' ? within : within.toReversed();
      return { entries: ordered.slice(0, limit), more: ordered.length > limit };
    },
    update: async (tenant, threadId, patch) => find(tenant, threadId).change(patch),
    emit: async ({ tenant, threadId }, ...event) => known(tenant, threadId)?.emit(...event),
    async events({ tenant, threadId }, { after = 0, limit }) {
      const newer = find(tenant, threadId).events.filter(({ sequenceNumber }) => sequenceNumber > after);
      return { events: newer.slice(0, limit), more: newer.length > limit };
    },
    async due(limit) {
      const all = [...threads.values()].flatMap((thread) => thread.due() ?? []);
      const due = all.toSorted((a, b) => Number(a.dueAt) - Number(b.dueAt));
      return { threads: due.slice(0, limit), unreachable: [], more: due.length > limit };
    },
    async lookAgain(again) {
      for (const { tenant, threadId, dueAt, nextMs } of again) known(tenant, threadId)?.lookAgain(dueAt, nextMs);
    },
  };
}

function nameOf(tenant: string, threadId: string): string {
  return `${tenant}\n${threadId}`;
}
