import type { ThreadContext } from '../../contract/thread/thread-context.ts';
import type {
  ThreadEventBody,
  ThreadEventOrigin,
  ThreadEventsPage,
  ThreadEventsRange,
  OnBusy,
  ThreadEntry,
  ThreadInfo,
  ThreadPatch,
  ThreadRef,
} from '../../contract/thread/thread.ts';
import {
  type AcquiredLock,
  type DueEntry,
  type DueThreads,
  type Entered,
  type EndedRun,
  type ThreadClaim,
  type ThreadLock,
  type ThreadRun,
  acquireThread,
  dueThreads,
  enterThread,
  leaveThread,
  lookAgainAtThreads,
  suspendThread,
  releaseToNext,
} from './lock.ts';
import {
  type Appended,
  type ThreadPage,
  type ThreadRange,
  appendToThread,
  readContext,
  readThread,
  threadInfo,
  updateThread,
  readThreadEvents,
  appendThreadEvent,
} from './log.ts';
import type { AddJob } from '../run/waits/resume.ts';
import type { ThreadKeySpace } from './key-space.ts';
import { withNamedErrors } from '../errors.ts';

/**
 * Conversations that last longer than a run, each with a lock and a wait queue of runs that want to continue it, in the order in
 * which they came. A run keeps the lock until it leaves, also while it is suspended and needs no worker. Nothing of a thread
 * expires. Kept in Redis by `redisThreads`, in memory by
 * `local/stores/in-memory-threads.ts`; both pass `test/contract/threads.ts`. Every method throws `queue_unavailable` when the store
 * cannot be reached; calls that change something may be made again then.
 */
export interface ThreadStore {
  /**
   * Gives a run the lock or a position in the wait queue, and makes the thread for its first run. Again for the same run changes
   * nothing and answers the present state. Default of `onBusy`: `queue`.
   */
  enter(run: ThreadRun & { readonly onBusy?: OnBusy | undefined }): Promise<Entered>;
  /** Acquires the lock, at every claim of the run. A run without a position gets the last one. An earlier claim than the last changes nothing. */
  acquire(run: ThreadClaim): Promise<AcquiredLock>;
  /**
   * Writes entries and fields of the manifest, all or nothing. `op` is unique per write of a turn: a repeat by any worker
   * changes nothing while the run has the lock. A user's message is written once per run, or per `key` where it has one.
   */
  append(lock: ThreadLock, op: string, entries: readonly ThreadEntry[], patch?: ThreadPatch): Promise<Appended>;
  /** The lock owner waits for something outside, until it acquires the lock again. It keeps the lock. */
  suspend(lock: ThreadLock): Promise<'ok' | 'fenced'>;
  /**
   * Takes a run out of the thread, whether it has the lock, waits, or was never there. `next` is the new lock owner and needs a
   * job; a repeat answers the same until it has acquired the lock. `epoch`: the last claim of the run when it ended; nothing
   * changes for a run with a later one.
   */
  leave(tenant: string, threadId: string, runId: string, epoch?: number): Promise<{ readonly next?: string }>;
  /** The same, and adds a job for the new lock owner. */
  releaseToNext(tenant: string, threadId: string, endedRun: EndedRun): Promise<void>;
  /** What a model is given of the thread; for the lock owner, as it was when its turn began. Throws `not_found`. */
  context(tenant: string, threadId: string, lockOwner?: string): Promise<ThreadContext>;
  /** Throws `not_found`. */
  get(tenant: string, threadId: string): Promise<ThreadInfo>;
  /** A page of the log as it was written. Throws `not_found`. */
  read(tenant: string, threadId: string, range: ThreadRange): Promise<ThreadPage>;
  /** Changes fields of the manifest; needs no lock. Throws `not_found`. */
  update(tenant: string, threadId: string, patch: ThreadPatch): Promise<void>;
  /**
   * Adds an event about what followed a run. The newest 1,000 are kept, outside of the log; a thread that is gone gets none.
   * `op` is unique per event: a repeat right after it changes nothing.
   */
  emit(thread: ThreadRef, origin: ThreadEventOrigin, op: string, body: ThreadEventBody): Promise<void>;
  /** Throws `not_found`. */
  events(thread: ThreadRef, range: ThreadEventsRange): Promise<ThreadEventsPage>;
  /** Locked threads of all tenants that are due to be checked: 15 seconds after the last run entered, or at the time of `lookAgain`. */
  due(limit: number): Promise<DueThreads>;
  /** `nextMs`: when each is due again, in milliseconds since the epoch. An entry since then counts more. */
  lookAgain(threads: readonly (DueEntry & { readonly nextMs: number })[]): Promise<void>;
}

/** The threads in Redis. All keys of a thread share a slot, so that one script reaches them. */
export function redisThreads(space: ThreadKeySpace, addJob: AddJob): ThreadStore {
  return withNamedErrors<ThreadStore>('threads', {
    enter: async ({ onBusy = 'queue', ...run }) => await enterThread(space, run, onBusy),
    acquire: async (run) => await acquireThread(space, run),
    append: async (lock, op, entries, patch) => await appendToThread(space, lock, op, entries, patch),
    suspend: async (lock) => await suspendThread(space, lock),
    leave: async (tenant, threadId, runId, epoch) => await leaveThread(space, { tenant, threadId }, { runId, epoch }),
    releaseToNext: async (tenant, threadId, endedRun) =>
      await releaseToNext(space, { tenant, threadId }, endedRun, addJob),
    context: async (tenant, threadId, lockOwner) => await readContext(space, { tenant, threadId }, lockOwner),
    get: async (tenant, threadId) => await threadInfo(space, { tenant, threadId }),
    read: async (tenant, threadId, range) => await readThread(space, { tenant, threadId }, range),
    update: async (tenant, threadId, patch) => await updateThread(space, { tenant, threadId }, patch),
    emit: async (thread, origin, op, body) => await appendThreadEvent(space, thread, origin, op, body),
    events: async (thread, range) => await readThreadEvents(space, thread, range),
    due: async (limit) => await dueThreads(space, limit),
    lookAgain: async (threads) => await lookAgainAtThreads(space, threads),
  });
}
