import { setImmediate as turn } from 'node:timers/promises';
import { expect, inject, onTestFinished, test } from 'vitest';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { startRedisProxy } from '../../support/redis-proxy.ts';
import { testPrefix } from '../../support/redis.ts';

test.each(['subscribe', 'ssubscribe'] as const)(
  'a connection that is closed while it repeats its %s after a loss leaves no rejection that is not looked at',
  async (how) => {
    const stray: unknown[] = [];
    const note = (error: unknown) => void stray.push(error);
    process.on('unhandledRejection', note);
    onTestFinished(() => void process.off('unhandledRejection', note));
    const proxy = await startRedisProxy(inject('redisUrl'));
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const connection = connect(proxy.url, 'subscribe', () => {});
    onTestFinished(() => connection.disconnect());
    await whenReady(connection, 20_000);
    const channel = testPrefix();
    await connection[how](channel);

    const ended = new Promise((resolve) => void connection.once('end', resolve));
    const repeated = proxy.holdBefore(channel);
    proxy.cut();
    await repeated;
    connection.disconnect();
    proxy.cut();
    await ended;
    await turn();
    expect(stray).toEqual([]);
    await expect(connection[how](channel), 'a caller is told').rejects.toThrow('closed');
  },
);
