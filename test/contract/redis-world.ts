import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { parseEvent, type EventBody, type RunEvent } from '../../src/shared/contract/event.ts';
import { silentLog } from '../../src/shared/base/log.ts';
import { isClusterUrl, type RedisConnection } from '../../src/shared/state/connect.ts';
import { keysFor, type Keys } from '../../src/shared/state/keys.ts';
import { type RunRecord, recordToHash } from '../../src/shared/contract/run.ts';
import { type RedisRunsOptions, redisRuns, type RunStore } from '../../src/shared/state/run/run-store.ts';
import { testPrefix, testRedis } from '../support/redis.ts';
import type { StoreWorld } from './store-world.ts';
import { runKeySpace } from '../support/run-key-space.ts';

export interface RedisWorld extends StoreWorld {
  readonly runs: RunStore;
  readonly redis: RedisConnection;
  readonly keys: Keys;
  readonly options: RedisRunsOptions;
}

/** A run store in the test Redis, or in the one at `url`, under a prefix of its own. */
export async function redisWorld(url?: string, changes: Partial<RedisRunsOptions> = {}): Promise<RedisWorld> {
  const redis = await testRedis('work', url);
  const keys = keysFor(testPrefix());
  const cluster = url !== undefined && isClusterUrl(url);
  const options: RedisRunsOptions = {
    ...runKeySpace(redis, keys, cluster),
    clock: systemClock,
    log: silentLog,
    ...changes,
  };
  return {
    redis,
    keys,
    options,
    runs: redisRuns(options),
    seed: (record) => seed(redis, keys, record),
    async cancel(runId, cancel) {
      await redis.sadd(keys.cancels, runId);
      await redis.hset(keys.run(runId), 'cancel', JSON.stringify(cancel));
    },
    journal: async (runId) => await redis.lrange(keys.journal(runId), 0, -1),
    events: (runId) => readEvents(redis, keys, runId),
    live: (runId) => listen(url, keys.live(runId), cluster),
  };
}

export async function readEvents(redis: RedisConnection, keys: Keys, runId: string): Promise<RunEvent[]> {
  const entries = await redis.xrange(keys.events(runId), '-', '+');
  return entries.map(([id, [, json = '']]) => {
    const event = parseEvent(json);
    if (id !== `${event.sequenceNumber}-0`) throw new Error(`entry ${id} has event ${event.sequenceNumber}`);
    return event;
  });
}

/** A run as its creation leaves it. */
async function seed(redis: RedisConnection, keys: Keys, record: RunRecord): Promise<void> {
  const { runId, createdAt, kind } = record;
  const queued: EventBody = { type: 'run.queued', kind, queuedAt: createdAt };
  const event = { v: 1, sequenceNumber: 1, runId, timestamp: createdAt, ...queued };
  await redis.zadd(keys.open, Date.parse(createdAt), runId);
  await redis.hset(keys.run(runId), { ...recordToHash(record), owner: '', held: '0', nonce: 'n', bodyHash: 'h' });
  await redis.xadd(keys.events(runId), '1-0', 'e', JSON.stringify(event));
}

async function listen(url: string | undefined, channel: string, cluster: boolean): Promise<RunEvent[][]> {
  const messages: RunEvent[][] = [];
  // The one node of a test's Cluster serves every slot, so an ordinary connection can receive its sharded channels.
  const subscriber = await testRedis('subscribe', cluster ? url?.replace('+cluster', '') : url);
  subscriber.on(cluster ? 'smessage' : 'message', (_: string, text: string) =>
    messages.push(JSON.parse(text) as RunEvent[]),
  );
  await (cluster ? subscriber.ssubscribe(channel) : subscriber.subscribe(channel));
  onTestFinished(() => subscriber.disconnect());
  return messages;
}
