import { onTestFinished } from 'vitest';
import { lockMs, type WorkerChild } from './fleet.ts';
import { OwnRedis } from './own-redis.ts';
import { startRedisProxy, type RedisProxy } from './redis-proxy.ts';
import type { seeded } from './seeded.ts';
import { makeWorld, type World } from './world.ts';

/** A world whose processes reach their own Redis through a proxy. Its client reaches it directly. */
export async function makeFragileWorld(): Promise<{
  readonly world: World;
  readonly proxy: RedisProxy;
  readonly redis: OwnRedis;
}> {
  const redis = await OwnRedis.start();
  const proxy = await startRedisProxy(redis.url);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const env = { REDIS_URL: proxy.url, WORKER_CONCURRENCY: '8', SHUTDOWN_GRACE_MS: '1000' };
  return { world: await makeWorld({ redisUrl: redis.url, workers: 3, producer: true, env }), proxy, redis };
}

export interface FaultOptions {
  readonly random: ReturnType<typeof seeded>;
  /** Between the processes and Redis. */
  readonly proxy: RedisProxy;
  /** Killed and started again once, in the middle. */
  readonly redis: OwnRedis;
  readonly rounds: number;
  /** On average. */
  readonly everyMs: number;
}

/**
 * Injects every kind of fault into a world, at random: workers are killed and replaced, or stopped for longer than their leases; connections
 * to Redis are cut, and replies lost; and Redis itself dies once. Resolves when all workers go on.
 */
export async function injectFaults(
  world: World,
  { random, proxy, redis, rounds, everyMs }: FaultOptions,
): Promise<void> {
  const paused: Promise<void>[] = [];
  for (let round = 0; round < rounds; round++) {
    await passed(everyMs / 2 + random.below(everyMs));
    if (round === Math.floor(rounds / 2)) {
      await redis.kill();
      await redis.start();
      await world.reachable();
      continue;
    }
    switch (random.below(5)) {
      case 0:
      case 1:
        await replace(world, random.below(world.workers.length));
        break;
      case 2:
        paused.push(pause(world.workers[random.below(world.workers.length)] as WorkerChild));
        break;
      case 3:
        proxy.cut();
        break;
      default:
        await proxy.dropRepliesOnce();
    }
  }
  await Promise.all(paused);
}

async function replace(world: World, index: number): Promise<void> {
  const [victim] = world.workers.splice(index, 1);
  await victim?.kill();
  await world.addWorker();
}

async function pause(worker: WorkerChild): Promise<void> {
  worker.signal('SIGSTOP');
  await passed(1.5 * lockMs);
  worker.signal('SIGCONT');
}

/** How long something lasts is what is done here, and nothing that could be awaited. */
async function passed(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}
