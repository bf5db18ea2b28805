import type { AddJob } from '../run/waits/resume.ts';
import { redisError } from '../errors.ts';
import { listThreads, purgeThreads, removeThread } from './list.ts';
import { acquireThread, dueThreads, enterThread, leaveThread, lookAgainAtThreads, suspendThread } from './line.ts';
import { appendToThread, readContext, readThread, threadInfo, updateThread } from './log.ts';
import type { ThreadPlace } from './thread-place.ts';
import { readThreadEvents, tellThread } from './events.ts';
import { passOn } from './turns.ts';
import type { Threads } from './threads.ts';

/** The threads in Redis. All keys of a thread share a slot, so that one script reaches them. */
export function redisThreads(place: ThreadPlace, addJob: AddJob): Threads {
  return {
    enter: ({ onBusy = 'queue', ...run }) =>
      named(enterThread(place, run, onBusy), `entry into thread ${run.threadId}`),
    acquire: (run) => named(acquireThread(place, run), `take-up of thread ${run.threadId}`),
    append: (hold, op, entries, patch) =>
      named(appendToThread(place, hold, op, entries, patch), `write to thread ${hold.threadId}`),
    suspend: (hold) => named(suspendThread(place, hold), `suspension in thread ${hold.threadId}`),
    leave: (tenant, threadId, runId, epoch) =>
      named(leaveThread(place, { tenant, threadId }, { runId, epoch }), `leave of thread ${threadId}`),
    passOn: (tenant, threadId, leaver) =>
      named(passOn(place, { tenant, threadId }, leaver, addJob), `leave of thread ${threadId}`),
    context: (tenant, threadId, holder) =>
      named(readContext(place, { tenant, threadId }, holder), `read of thread ${threadId}`),
    get: (tenant, threadId) => named(threadInfo(place, { tenant, threadId }), `read of thread ${threadId}`),
    read: (tenant, threadId, range) =>
      named(readThread(place, { tenant, threadId }, range), `read of thread ${threadId}`),
    list: (tenant, query) => named(listThreads(place, tenant, query), 'list of threads'),
    update: (tenant, threadId, patch) =>
      named(updateThread(place, { tenant, threadId }, patch), `change of thread ${threadId}`),
    tell: (thread, origin, op, body) =>
      named(tellThread(place, thread, origin, op, body), `event of thread ${thread.threadId}`),
    events: (thread, range) => named(readThreadEvents(place, thread, range), `events of thread ${thread.threadId}`),
    remove: (tenant, threadId) => named(removeThread(place, { tenant, threadId }), `removal of thread ${threadId}`),
    purge: (tenant, cursor) => named(purgeThreads(place, tenant, cursor), 'removal of threads'),
    due: (limit) => named(dueThreads(place, limit), 'list of threads that are due'),
    lookAgain: (threads) => named(lookAgainAtThreads(place, threads), 'next look at threads'),
  };
}

async function named<T>(work: Promise<T>, doing: string): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw redisError(error, doing);
  }
}
