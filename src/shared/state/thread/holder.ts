import type { ThreadPlace } from './thread-place.ts';
import type { ThreadRef } from '../../contract/thread/thread.ts';

/** The run that holds a thread. What its turn writes has numbers above `began`. */
export interface ThreadHolder {
  readonly runId: string;
  readonly began: number;
  /** The turn is to leave no trace: what it has written is taken back when it is over. */
  readonly rolledBack: boolean;
}

/** Undefined when no run holds the thread, or there is no such thread. */
export async function holderOf(
  { redis, keys }: ThreadPlace,
  { tenant, threadId }: ThreadRef,
): Promise<ThreadHolder | undefined> {
  const manifest = keys.thread(tenant, threadId, 'manifest');
  const [runId, began, rollback] = await redis.hmget(manifest, 'holder', 'heldFrom', 'rollback');
  return runId ? { runId, began: Number(began), rolledBack: rollback === runId } : undefined;
}
