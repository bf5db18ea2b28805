import type { Clock } from '../../base/clock.ts';
import type { RedisConnection } from '../connect.ts';
import type { Keys } from '../keys.ts';
import { threadNotFound, type ThreadRef } from '../../contract/thread/thread.ts';

/** Where threads are kept. */
export interface ThreadPlace {
  readonly redis: RedisConnection;
  readonly keys: Keys;
  /** Keys of threads and of the lists across threads live on different nodes. */
  readonly cluster: boolean;
  readonly clock: Pick<Clock, 'now'>;
}

/** The keys of the scripts about one thread, in the order of `thread-place.lua`. */
export function threadKeys({ keys }: ThreadPlace, { tenant, threadId }: ThreadRef): string[] {
  return (['manifest', 'line', 'log', 'left', 'once', 'ops', 'events', 'claims'] as const).map((part) =>
    keys.thread(tenant, threadId, part),
  );
}

/** Every field of the manifest's hash. Throws `not_found` when there is no such thread. */
export async function readManifest(
  { redis, keys }: ThreadPlace,
  { tenant, threadId }: ThreadRef,
): Promise<Record<string, string>> {
  const hash = await redis.hgetall(keys.thread(tenant, threadId, 'manifest'));
  // A hash without an agent is no thread.
  if (hash['agentId'] === undefined) throw threadNotFound(threadId);
  return hash;
}
