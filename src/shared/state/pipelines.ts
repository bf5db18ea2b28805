import { type ChainableCommander, Cluster } from 'ioredis';
import { settledValue } from '../base/collections.ts';
import type { RedisConnection } from './connect.ts';

type Commands<T> = (pipeline: ChainableCommander, item: T) => unknown;

/**
 * Sends commands for each item and answers their replies, in order. All leave in one write, which costs a fraction of a write for each;
 * in a Cluster it is one for each item, whose keys share a node. An item of which a command fails keeps no other from its replies.
 */
export async function repliesFor<T>(
  redis: RedisConnection,
  items: readonly T[],
  commands: Commands<T>,
): Promise<PromiseSettledResult<unknown[]>[]> {
  if (redis instanceof Cluster)
    return await Promise.allSettled(
      items.map(async (item) => {
        const [replies] = await repliesOf(redis.pipeline(), [item], commands);
        return replies ? settledValue(replies) : [];
      }),
    );
  return await repliesOf(redis.pipeline(), items, commands);
}

async function repliesOf<T>(
  pipeline: ChainableCommander,
  items: readonly T[],
  commands: Commands<T>,
): Promise<PromiseSettledResult<unknown[]>[]> {
  const ends = items.map((item) => {
    commands(pipeline, item);
    return pipeline.length;
  });
  const replies = (await pipeline.exec()) ?? [];
  return ends.map((end, i) => {
    const own = replies.slice(ends[i - 1] ?? 0, end);
    const failed = own.find(([error]) => error)?.[0];
    return failed
      ? { status: 'rejected', reason: failed }
      : { status: 'fulfilled', value: own.map(([, reply]) => reply) };
  });
}
