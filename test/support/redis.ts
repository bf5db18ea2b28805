import { randomBytes } from 'node:crypto';
import { connect as connectSocket } from 'node:net';
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

/**
 * Notes what clients ask of the test Redis from now on. The function that comes back answers the commands so far that name something, as
 * MONITOR has them. It has a socket of its own: in ioredis a command that comes with the reply to MONITOR is an error.
 */
export async function monitorRedis(redis: RedisConnection, url = inject('redisUrl')) {
  const { hostname, port } = new URL(url);
  const socket = connectSocket(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  let seen = '';
  socket.setEncoding('utf8').on('data', (text: string) => (seen += text));
  socket.write('MONITOR\r\n');
  await until('Redis says what it is asked', () => seen.startsWith('+OK'));
  return async (name: string): Promise<readonly string[]> => {
    const mark = testPrefix();
    await redis.echo(mark);
    await until('Redis has said all', () => seen.includes(mark));
    return seen.split('\r\n').filter((line) => line.includes(name));
  };
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
