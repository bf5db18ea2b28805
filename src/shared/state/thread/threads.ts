import type { ThreadContext } from '../../contract/thread/thread-context.ts';
import type {
  ThreadEventBody,
  ThreadEventOrigin,
  ThreadEventsPage,
  ThreadEventsRange,
} from '../../contract/thread/thread-event.ts';
import type { OnBusy, ThreadEntry, ThreadInfo, ThreadPatch, ThreadRef } from '../../contract/thread/thread.ts';
import type { Acquired, DueEntry, DueThreads, Entered, Leaver, ThreadClaim, ThreadHold, ThreadRun } from './line.ts';
import type { ThreadList, ThreadPurge, ThreadQuery } from './list.ts';
import type { Appended, ThreadPage, ThreadRange } from './log.ts';

/**
 * Conversations that last longer than a run, and the line of runs that want to continue one: one at a time, in the order in
 * which they came. A run holds its thread from the moment that it is its turn until it leaves, also while it is suspended; it
 * holds no worker for that. Nothing of a thread expires. Kept in Redis by `state/thread/redis-threads.ts`, in memory by
 * `local/stores/memory-threads.ts`; both pass `test/contract/threads.ts`. Every method throws `queue_unavailable` when the store
 * cannot be reached; calls that change something may be made again then.
 */
export interface Threads {
  /**
   * Gives a run its place, and makes the thread when it is the first run of it. Again for the same run changes nothing and
   * answers how it stands now. Default of `onBusy`: `queue`.
   */
  enter(run: ThreadRun & { readonly onBusy?: OnBusy }): Promise<Entered>;
  /** Takes the thread up, at every claim of the run. One that has no place gets one, at the end. Nothing changes for an earlier claim than the last one. */
  acquire(run: ThreadClaim): Promise<Acquired>;
  /**
   * Writes entries and fields of the manifest, all or nothing. `op` is unique per write of a turn: a repeat by any worker
   * changes nothing while the run holds the thread. A user's message is written once per run, or per `key` where it has one.
   */
  append(hold: ThreadHold, op: string, entries: readonly ThreadEntry[], patch?: ThreadPatch): Promise<Appended>;
  /** The holder waits for something outside, until it takes the thread up again. It keeps its turn. */
  suspend(hold: ThreadHold): Promise<'ok' | 'fenced'>;
  /**
   * Takes a run out of the thread, whether it holds it, waits, or was never there. `next` holds the thread from now on and
   * has to be woken; asked again it is answered until it has taken the thread up. `epoch`: the last claim of the run when it was
   * over; nothing changes for a run that has come back with a later one.
   */
  leave(tenant: string, threadId: string, runId: string, epoch?: number): Promise<{ readonly next?: string }>;
  /** The same, and queues the run whose turn it is now. */
  passOn(tenant: string, threadId: string, leaver: Leaver): Promise<void>;
  /** What a model is given of the thread; for the run that holds it, as it was when its turn began. Throws `not_found`. */
  context(tenant: string, threadId: string, holder?: string): Promise<ThreadContext>;
  /** Throws `not_found`. */
  get(tenant: string, threadId: string): Promise<ThreadInfo>;
  /** A page of the log as it was written. Throws `not_found`. */
  read(tenant: string, threadId: string, range: ThreadRange): Promise<ThreadPage>;
  /** Last changed first. Throws `validation` for a cursor of a wrong form. */
  list(tenant: string, query: ThreadQuery): Promise<ThreadList>;
  /** Changes fields of the manifest whoever holds the thread. Throws `not_found`. */
  update(tenant: string, threadId: string, patch: ThreadPatch): Promise<void>;
  /**
   * Tells what followed a run. The newest 1,000 events are kept, outside of the log; nothing is told to a thread that is gone.
   * `op` is unique per event: a repeat right after it changes nothing.
   */
  tell(thread: ThreadRef, origin: ThreadEventOrigin, op: string, body: ThreadEventBody): Promise<void>;
  /** Throws `not_found`. */
  events(thread: ThreadRef, range: ThreadEventsRange): Promise<ThreadEventsPage>;
  /** Deletes a thread. Throws `not_found`, and `concurrent_run` while a run holds it or waits for it. */
  remove(tenant: string, threadId: string): Promise<void>;
  /** Deletes the threads of a tenant, some with each call, until an answer has no cursor. Threads in use are kept. */
  purge(tenant: string, cursor?: string): Promise<ThreadPurge>;
  /** Threads of all tenants that runs hold and that are due to be looked at: 15 seconds after the last entry, or as `lookAgain` said. */
  due(limit: number): Promise<DueThreads>;
  /** `nextMs`: when each is due again, in milliseconds since the epoch. An entry since then counts more. */
  lookAgain(threads: readonly (DueEntry & { readonly nextMs: number })[]): Promise<void>;
}
