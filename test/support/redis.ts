import { randomBytes } from 'node:crypto';
import { inject, onTestFinished } from 'vitest';
import { connect, whenReady, type ConnectionPurpose, type RedisConnection } from '../../src/shared/state/connect.ts';

/** A key prefix that no other test uses. */
export function testPrefix(): string {
  return `t${randomBytes(5).toString('hex')}`;
}

/** A connection to the test Redis, closed when the test ends. */
export async function testRedis(
  purpose: ConnectionPurpose = 'work',
  url = inject('redisUrl'),
): Promise<RedisConnection> {
  const redis = connect(url, purpose, () => {});
  onTestFinished(() => redis.disconnect());
  await whenReady(redis, 20_000);
  return redis;
}

/** Resolves with the first truthy value; throws with `what` after `timeoutMs`. The only way tests wait. */
export async function until<T>(what: string, probe: () => T | Promise<T>, timeoutMs = 60_000): Promise<NonNullable<T>> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
