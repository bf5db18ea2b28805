import { setImmediate as turn } from 'node:timers/promises';
import { expect, inject, onTestFinished, test } from 'vitest';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { startRedisProxy } from '../../support/redis-proxy.ts';
import { testPrefix, testRedis } from '../../support/redis.ts';

test.each(['subscribe', 'ssubscribe'] as const)(
  'a connection that is closed while it repeats its %s after a loss leaves no rejection without a handler',
  async (how) => {
    const stray: unknown[] = [];
    const note = (error: unknown) => void stray.push(error);
    process.on('unhandledRejection', note);
    onTestFinished(() => void process.off('unhandledRejection', note));
    const proxy = await startRedisProxy(inject('redisUrl'));
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const errors: Error[] = [];
    const connection = connect(proxy.url, 'subscribe', (error) => void errors.push(error));
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
    expect(errors.map(({ message }) => message)).not.toContain('Connection is closed.');
    await expect(connection[how](channel), 'a caller gets the rejection').rejects.toThrow('closed');
  },
);

test('a subscription that Redis refuses when it is repeated after a loss is reported', async () => {
  const admin = await testRedis();
  const user = testPrefix();
  await admin.call('ACL', 'SETUSER', user, 'on', '>secret', '+@all', 'allchannels');
  onTestFinished(async () => void (await admin.call('ACL', 'DELUSER', user)));
  const url = new URL(inject('redisUrl'));
  [url.username, url.password] = [user, 'secret'];
  const errors: Error[] = [];
  const connection = connect(url.href, 'subscribe', (error) => void errors.push(error));
  onTestFinished(() => connection.disconnect());
  await whenReady(connection, 20_000);
  await connection.subscribe(testPrefix());
  // Redis closes the connections that listen to what a user may no longer hear.
  await admin.call('ACL', 'SETUSER', user, 'resetchannels');
  await expect.poll(() => errors.map(({ message }) => message)).toContainEqual(expect.stringMatching(/^NOPERM/));
});
