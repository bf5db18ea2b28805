import { unlessAborted } from '../../shared/base/deadline.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { defined } from '../../shared/base/defined.ts';
import { RunError } from '../../shared/base/errors.ts';
import { isDelta, type RunEvent } from '../../shared/contract/event.ts';
import { newRunId } from '../../shared/base/ids.ts';
import type { ThreadLock } from '../../shared/state/thread/wait-queue.ts';
import type { ThreadEntry, ThreadPatch } from '../../shared/contract/thread/thread.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';
import type { LockedRunnerThread, RunnerThreads, Said } from './runner-ports.ts';

const tenant = 'default';
const maxEvents = 1_000;

/** The threads of a runner, and what is in them. */
export interface LocalThreads extends RunnerThreads {
  /** What was said, oldest first. Throws `not_found`. */
  said(threadId: string): Promise<readonly Said[]>;
  /** The last 1,000 events of its runs, without deltas. */
  events(threadId: string): readonly RunEvent[];
  /** Fields of the manifest. Throws `not_found`. */
  update(threadId: string, patch: ThreadPatch): Promise<void>;
}

/** Threads for a runner, kept in `threads`, with a lock of this process: one run at a time, in the order of arrival. */
export function localThreads(threads: ThreadStore, clock: Pick<Clock, 'now'>): LocalThreads {
  const lock = new ArrivalLock();
  const events = new Map<string, RunEvent[]>();

  function record(threadId: string, event: RunEvent): void {
    if (isDelta(event.type)) return;
    const kept = events.get(threadId) ?? [];
    kept.push(event);
    if (kept.length > maxEvents) kept.shift();
    events.set(threadId, kept);
  }

  /** Its turn has come in this process: nobody else can be at work on it. */
  async function take(threadId: string, agentId: string): Promise<ThreadLock> {
    const run = { tenant, threadId, runId: newRunId(clock.now()), agentId };
    const acquired = await threads.acquire({ ...run, epoch: 1 });
    if (acquired.kind === 'acquired') return { tenant, threadId, runId: run.runId, fence: acquired.fence };
    await threads.leave(tenant, threadId, run.runId);
    if (acquired.kind === 'waiting')
      throw new RunError('concurrent_run', `run ${acquired.lockOwner} is at work on thread ${threadId}`);
    if (acquired.kind === 'stale') throw new RunError('internal', `the turn of run ${run.runId} was taken twice`);
    throw new RunError('validation', `thread ${threadId} belongs to agent ${acquired.agentId}, not to ${agentId}`);
  }

  function held(hold: ThreadLock, release: () => void): LockedRunnerThread {
    const { threadId, runId } = hold;
    let writes = 0;
    const write = async (entries: readonly ThreadEntry[], patch: ThreadPatch = {}) => {
      const { kind } = await threads.append(hold, `${runId}:${++writes}`, entries, patch);
      if (kind === 'fenced') throw new RunError('lock_lost', `somebody else took thread ${threadId}`);
    };
    return {
      async manifest() {
        const { session, taskId } = await threads.get(tenant, threadId);
        const sessionId = session?.sessionToken;
        return defined({ sessionId, taskId });
      },
      append: async (said) => await write([entryOf(said, runId, new Date(clock.now()).toISOString())]),
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
      const release = await lock.enter(threadId, signal);
      if (!release) return undefined;
      try {
        return held(await take(threadId, agentId), release);
      } catch (error) {
        release();
        throw error;
      }
    },
    async said(threadId) {
      const { entries } = await threads.read(tenant, threadId, { limit: Number.MAX_SAFE_INTEGER });
      return entries.flatMap(({ entry }) => (entry.t === 'message' ? saidIn(entry) : []));
    },
    events: (threadId) => events.get(threadId) ?? [],
    update: async (threadId, patch) => await threads.update(tenant, threadId, patch),
  };
}

function entryOf({ role, text, emptyResponse }: Said, runId: string, at: string): ThreadEntry {
  const message = role === 'user' ? { role, content: text } : { role, parts: [{ type: 'text' as const, text }] };
  return { v: 1, t: 'message', runId, at, emptyResponse, message };
}

function saidIn({ message, emptyResponse }: Extract<ThreadEntry, { t: 'message' }>): Said[] {
  if (message.role === 'user') return [{ role: 'user', text: message.content }];
  if (message.role === 'tool') return [];
  const text = message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  return [defined({ role: 'assistant', text, emptyResponse })];
}

/** Locks by name, held by one at a time in the order in which they asked. For one process. */
export class ArrivalLock {
  readonly #ends = new Map<string, Promise<void>>();

  /** Resolves with the release when all before are through; undefined when the signal is aborted first. */
  async enter(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    const before = this.#ends.get(name) ?? Promise.resolve();
    const { promise: done, resolve: release } = Promise.withResolvers<void>();
    // Who gives up its place is through at once, but those behind still wait for those before.
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
