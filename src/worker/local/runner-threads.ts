import { unlessAborted } from '../../shared/base/deadline.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { isDelta, type RunEvent } from '../../shared/contract/event.ts';
import { newRunId } from '../../shared/base/ids.ts';
import type { ThreadLock } from '../../shared/state/thread/wait-queue.ts';
import type { ThreadEntry, ThreadPatch } from '../../shared/contract/thread/thread.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';
import type { LockedRunnerThread, RunnerThreads, RunnerMessage } from './runner-ports.ts';

const tenant = 'default';
const maxEvents = 1_000;

/** The threads of a runner, and what is in them. */
export interface LocalThreads extends RunnerThreads {
  /** The messages, oldest first. Throws `not_found`. */
  messages(threadId: string): Promise<readonly RunnerMessage[]>;
  /** The last 1,000 events of its runs, without deltas. */
  events(threadId: string): readonly RunEvent[];
  /** Fields of the manifest. Throws `not_found`. */
  update(threadId: string, patch: ThreadPatch): Promise<void>;
}

/** Threads for a runner, kept in `threads`, with a lock of this process: one run at a time, in the order of arrival. */
export function localThreads(threads: ThreadStore, clock: Pick<Clock, 'now'>): LocalThreads {
  const arrivals = new ArrivalLock();
  const events = new Map<string, RunEvent[]>();

  function record(threadId: string, event: RunEvent): void {
    if (isDelta(event.type)) return;
    const kept = events.get(threadId) ?? [];
    kept.push(event);
    if (kept.length > maxEvents) kept.shift();
    events.set(threadId, kept);
  }

  /** No other run of this process has the thread now. */
  async function take(threadId: string, agentId: string): Promise<ThreadLock> {
    const run = { tenant, threadId, runId: newRunId(clock.now()), agentId };
    const acquired = await threads.acquire({ ...run, epoch: 1 });
    if (acquired.kind === 'acquired') return { tenant, threadId, runId: run.runId, fence: acquired.fence };
    await threads.leave(tenant, threadId, run.runId);
    if (acquired.kind === 'waiting')
      throw new RunError('concurrent_run', `run ${acquired.lockOwner} works on thread ${threadId}`);
    if (acquired.kind === 'stale') throw new RunError('internal', `the turn of run ${run.runId} was taken twice`);
    throw new RunError('validation', `thread ${threadId} belongs to agent ${acquired.agentId}, not to ${agentId}`);
  }

  function locked(lock: ThreadLock, release: () => void): LockedRunnerThread {
    const { threadId, runId } = lock;
    let writes = 0;
    const write = async (entries: readonly ThreadEntry[], patch: ThreadPatch = {}) => {
      const { kind } = await threads.append(lock, `${runId}:${++writes}`, entries, patch);
      if (kind === 'fenced') throw new RunError('lock_lost', `another run took thread ${threadId}`);
    };
    return {
      async manifest() {
        const { session, taskId } = await threads.get(tenant, threadId);
        const sessionId = session?.sessionToken;
        return defined({ sessionId, taskId });
      },
      append: async (message) => await write([entryOf(message, runId, new Date(clock.now()).toISOString())]),
      record: (event) => record(threadId, event),
      update: async ({ sessionId }) =>
        await write(
          [],
          sessionId === undefined ? {} : { session: { provider: 'engine', model: '', sessionToken: sessionId } },
        ),
      async [Symbol.asyncDispose]() {
        try {
          await threads.leave(tenant, threadId, runId);
        } finally {
          release();
        }
      },
    };
  }

  return {
    async acquire(threadId, agentId, signal) {
      const release = await arrivals.enter(threadId, signal);
      if (!release) return undefined;
      try {
        return locked(await take(threadId, agentId), release);
      } catch (error) {
        release();
        throw error;
      }
    },
    async messages(threadId) {
      const { entries } = await threads.read(tenant, threadId, { limit: Number.MAX_SAFE_INTEGER });
      return entries.flatMap(({ entry }) => (entry.t === 'message' ? messagesOf(entry) : []));
    },
    events: (threadId) => events.get(threadId) ?? [],
    update: async (threadId, patch) => await threads.update(tenant, threadId, patch),
  };
}

function entryOf({ role, text, emptyResponse }: RunnerMessage, runId: string, at: string): ThreadEntry {
  const message = role === 'user' ? { role, content: text } : { role, parts: [{ type: 'text' as const, text }] };
  return { v: 1, t: 'message', runId, at, emptyResponse, message };
}

function messagesOf({ message, emptyResponse }: Extract<ThreadEntry, { t: 'message' }>): RunnerMessage[] {
  if (message.role === 'user') return [{ role: 'user', text: message.content }];
  if (message.role === 'tool') return [];
  const text = message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  return [defined({ role: 'assistant', text, emptyResponse })];
}

/** Locks by name: one owner at a time, in the order in which they asked. For one process. */
export class ArrivalLock {
  readonly #ends = new Map<string, Promise<void>>();

  /** Resolves with the release when all before are through; undefined when the signal is aborted first. */
  async enter(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    const before = this.#ends.get(name) ?? Promise.resolve();
    const { promise: done, resolve: release } = Promise.withResolvers<void>();
    // A waiter that leaves ends at once, but those behind it still wait for those before it.
    const end = before.then(() => done);
    this.#ends.set(name, end);
    void end.then(() => this.#ends.get(name) === end && this.#ends.delete(name));
    if (await isReached(before, signal)) return release;
    release();
    return undefined;
  }
}

async function isReached(before: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const reached = before.then(() => true);
  return await unlessAborted(reached, signal).catch(() => false);
}
