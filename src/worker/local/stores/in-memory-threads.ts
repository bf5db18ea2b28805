import { defined } from '../../../shared/base/collections.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import {
  listCursor,
  maxNamedRuns,
  parseListCursor,
  parsePurgeCursor,
  purgeCursor,
  purgedAtOnce,
  type ListedThread,
} from '../../../shared/state/thread/list.ts';
import { threadInUse, threadNotFound } from '../../../shared/contract/thread/thread.ts';
import type { ThreadStore } from '../../../shared/state/thread/threads.ts';
import { InMemoryThread } from './in-memory-thread.ts';

/** Threads that are kept; of those that are not locked the longest unchanged make room. */
const maxThreads = 1_000;

/** The threads of one process. `wake` is called with the run whose turn it is. */
export function inMemoryThreads(clock: Clock, wake: (runId: string) => Promise<void> = async () => {}): ThreadStore {
  const tenants = new Map<string, Map<string, InMemoryThread>>();
  const threadsOf = (tenant: string) => tenants.get(tenant) ?? new Map<string, InMemoryThread>();

  function open(tenant: string, threadId: string): InMemoryThread {
    const known = threadsOf(tenant).get(threadId);
    if (known) return known;
    makeRoom();
    const thread = new InMemoryThread(threadId, clock);
    tenants.set(tenant, threadsOf(tenant).set(threadId, thread));
    return thread;
  }

  function find(tenant: string, threadId: string): InMemoryThread {
    const thread = threadsOf(tenant).get(threadId);
    if (!thread?.exists) throw threadNotFound(threadId);
    return thread;
  }

  function makeRoom(): void {
    const all = [...tenants.values()].flatMap((threads) =>
      [...threads].map(([id, thread]) => ({ threads, id, thread })),
    );
    if (all.length < maxThreads) return;
    const idle = all.filter(({ thread }) => thread.runs.length === 0);
    const oldest = idle.toSorted((a, b) => a.thread.changedAtMs - b.thread.changedAtMs)[0];
    oldest?.threads.delete(oldest.id);
  }

  /** By the time of their last change and then by id, both rising. */
  function listed(tenant: string): (ListedThread & { readonly thread: InMemoryThread })[] {
    return [...threadsOf(tenant)]
      .filter(([, thread]) => thread.exists)
      .map(([threadId, thread]) => ({ threadId, changedAtMs: thread.changedAtMs, thread }))
      .sort(compare);
  }

  return {
    async enter({ tenant, threadId, runId, agentId, onBusy = 'queue' }) {
      return open(tenant, threadId).enter(runId, agentId, onBusy);
    },
    async acquire({ tenant, threadId, runId, agentId, epoch }) {
      return open(tenant, threadId).acquire(runId, agentId, epoch);
    },
    async append({ tenant, threadId, runId, fence }, op, entries, patch = {}) {
      const thread = threadsOf(tenant).get(threadId);
      return thread?.append({ runId, fence }, op, entries, patch) ?? { kind: 'fenced' };
    },
    async suspend({ tenant, threadId, runId, fence }) {
      return threadsOf(tenant).get(threadId)?.suspend({ runId, fence }) ?? 'fenced';
    },
    async leave(tenant, threadId, runId, epoch) {
      return open(tenant, threadId).leave({ runId, epoch });
    },
    async releaseToNext(tenant, threadId, endedRun) {
      const next = threadsOf(tenant).get(threadId)?.leave(endedRun).next;
      if (next !== undefined) await wake(next);
    },
    async context(tenant, threadId, lockOwner) {
      return find(tenant, threadId).context(lockOwner);
    },
    async get(tenant, threadId) {
      return find(tenant, threadId).info;
    },
    async read(tenant, threadId, { after = 0, before = Infinity, limit, order = 'asc' }) {
      const within = find(tenant, threadId).entries.filter(({ seq }) => seq > after && seq < before);
      const ordered = order === 'asc' ? within : within.toReversed();
      return { entries: ordered.slice(0, limit), more: ordered.length > limit };
    },
    async list(tenant, { cursor, limit, agent }) {
      const last = cursor === undefined ? undefined : parseListCursor(cursor);
      const rest = listed(tenant)
        .toReversed()
        .filter((entry) => !last || compare(entry, last) < 0)
        .filter(({ thread }) => agent === undefined || thread.info.agentId === agent);
      const page = rest.slice(0, limit);
      const end = page.at(-1);
      return {
        threads: page.map(({ thread }) => thread.info),
        ...defined({ cursor: end && rest.length > limit ? listCursor(end) : undefined }),
      };
    },
    async update(tenant, threadId, patch) {
      find(tenant, threadId).change(patch);
    },
    async emit({ tenant, threadId }, origin, op, body) {
      threadsOf(tenant).get(threadId)?.emit(origin, op, body);
    },
    async events({ tenant, threadId }, { after = 0, limit }) {
      const newer = find(tenant, threadId).events.filter(({ sequenceNumber }) => sequenceNumber > after);
      return { events: newer.slice(0, limit), more: newer.length > limit };
    },
    async remove(tenant, threadId) {
      const thread = find(tenant, threadId);
      if (thread.runs.length > 0) throw threadInUse(threadId, thread.runs.slice(0, maxNamedRuns));
      thread.clear();
    },
    async purge(tenant, cursor) {
      const { untilMs, last } =
        cursor === undefined ? { untilMs: clock.now(), last: undefined } : parsePurgeCursor(cursor);
      const rest = listed(tenant).filter(
        (entry) => entry.changedAtMs <= untilMs && (!last || compare(entry, last) > 0),
      );
      const some = rest.slice(0, purgedAtOnce);
      const kept = some.filter(({ thread }) => thread.runs.length > 0);
      const idle = some.filter(({ thread }) => thread.runs.length === 0);
      for (const { thread } of idle) thread.clear();
      const end = some.at(-1);
      return {
        removed: idle.length,
        kept: kept.map(({ threadId }) => threadId),
        ...defined({ cursor: end && some.length === purgedAtOnce ? purgeCursor(untilMs, end) : undefined }),
      };
    },
    async due(limit) {
      const due = [...tenants]
        .flatMap(([tenant, threads]) => [...threads.values()].flatMap((thread) => thread.due(tenant) ?? []))
        .toSorted((a, b) => Number(a.dueAt) - Number(b.dueAt));
      return { threads: due.slice(0, limit), unreachable: [], more: due.length > limit };
    },
    async lookAgain(again) {
      for (const { tenant, threadId, dueAt, nextMs } of again)
        tenants.get(tenant)?.get(threadId)?.lookAgain(dueAt, nextMs);
    },
  };
}

function compare(a: ListedThread, b: ListedThread): number {
  return a.changedAtMs - b.changedAtMs || (a.threadId < b.threadId ? -1 : Number(a.threadId > b.threadId));
}
