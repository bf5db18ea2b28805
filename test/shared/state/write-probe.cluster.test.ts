import { expect, onTestFinished, test } from 'vitest';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { keysFor } from '../../../src/shared/state/keys.ts';
import { WriteProbe, type WriteProblem } from '../../../src/shared/state/write-probe.ts';
import { until } from '../../support/redis.ts';
import { startTwoMasters } from '../../support/two-masters.ts';

test('each master of a Cluster is written to: one that is full or away is reported, until it is well again', async () => {
  const [large, small] = await startTwoMasters([16_375, 16_383]);
  const redis = connect(`redis+cluster://127.0.0.1:${large.port}`, 'command', () => {});
  onTestFinished(() => redis.disconnect());
  await whenReady(redis, 20_000);
  const look = (): Promise<WriteProblem | undefined> => new WriteProbe(redis, keysFor('mr')).look();
  await until('writes go through', async () => (await look()) === undefined);
  expect(await large.redis.keys('mr:{*}:writable')).toHaveLength(1);
  const [onSmall = ''] = await small.redis.keys('mr:{*}:writable');
  expect(await small.redis.pttl(onSmall)).toBeGreaterThan(0);

  await small.redis.call('CONFIG', 'SET', 'maxmemory', '1');
  const reason = expect.stringMatching(/^1 of the 2 masters of the Cluster: Redis is full: raise/);
  expect(await look()).toEqual({ redis: 'refuses', reason });
  await small.redis.call('CONFIG', 'SET', 'maxmemory', '0');
  expect(await look()).toBeUndefined();

  await small.server.stop('SIGKILL');
  const away = await until('the missing node is reported', look);
  expect(away.reason).toMatch(/^1 of the 2 masters of the Cluster/);
  await small.restart();
  await until('writes go through again', async () => (await look()) === undefined);
});
