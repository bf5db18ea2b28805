import type { Clock } from '../../base/clock.ts';
import type { KeySpace } from '../keys.ts';
import { threadNotFound, type ThreadRef } from '../../contract/thread/thread.ts';

/** Where threads are kept. */
export interface ThreadKeySpace extends KeySpace {
  /** Keys of threads and of the lists across threads live on different nodes. */
  readonly cluster: boolean;
  readonly clock: Pick<Clock, 'now'>;
}

/** The keys of the scripts about one thread, in the order of `wait-queue.lua`. */
export function threadKeys({ keys }: ThreadKeySpace, { tenant, threadId }: ThreadRef): string[] {
  return (['manifest', 'waiters', 'log', 'left', 'once', 'ops', 'events', 'claims'] as const).map((part) =>
    keys.thread(tenant, threadId, part),
  );
}

/** Every field of the manifest's hash. Throws `not_found` when there is no such thread. */
export async function readManifest(space: ThreadKeySpace, thread: ThreadRef): Promise<Record<string, string>> {
  const { tenant, threadId } = thread;
  const hash = await space.redis.hgetall(space.keys.thread(tenant, threadId, 'manifest'));
  // A hash without an agent is no thread.
  if (hash['agentId'] === undefined) throw threadNotFound(threadId);
  return hash;
}

/** The run that has the lock of a thread. Entries of its turn have numbers above `began`. */
export interface ThreadLockOwner {
  readonly runId: string;
  readonly began: number;
  /** The turn is to be rolled back: what it has written is removed when it ends. */
  readonly rolledBack: boolean;
}

/** Undefined when the thread is free, or there is no such thread. */
export async function lockOwnerOf(
  { redis, keys }: ThreadKeySpace,
  { tenant, threadId }: ThreadRef,
): Promise<ThreadLockOwner | undefined> {
  const manifest = keys.thread(tenant, threadId, 'manifest');
  const [runId, began, rollback] = await redis.hmget(manifest, 'lockOwner', 'lockedFromSeq', 'rollback');
  return runId ? { runId, began: Number(began), rolledBack: rollback === runId } : undefined;
}
