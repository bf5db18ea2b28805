import { expect, test } from 'vitest';
import { newRunId } from '../../../../src/shared/base/ids.ts';
import { readEnded } from '../../../../src/shared/state/archive/ended-run.ts';
import { monitorRedis } from '../../../support/redis.ts';
import { redisWorld } from '../../../contract/redis-world.ts';
import { aRecord } from '../../../contract/run-fixtures.ts';

test('a record that cannot be read keeps no other from being read, and one that is gone is nothing', async () => {
  const world = await redisWorld();
  const { redis, keys } = world;
  const [good, bad, gone] = [newRunId(Date.now()), newRunId(Date.now()), newRunId(Date.now())];
  await world.seed(aRecord({ runId: good }));
  await world.seed(aRecord({ runId: bad }));
  await redis.hset(keys.run(bad), 'thread', 'a\0b\0c');
  const [found, damaged, none] = await readEnded({ redis, keys }, [good, bad, gone]);
  expect(found).toMatchObject({ status: 'fulfilled', value: { runId: good, facts: { tenant: 'default' } } });
  expect(damaged).toMatchObject({ status: 'rejected', reason: { code: 'run_state_malformed' } });
  expect(none).toEqual({ status: 'fulfilled', value: undefined });
});

test('a journal that cannot be read keeps no other run from being read', async () => {
  const world = await redisWorld();
  const { redis, keys } = world;
  const [good, bad] = [newRunId(Date.now()), newRunId(Date.now())];
  for (const runId of [bad, good]) await world.seed(aRecord({ runId }));
  await redis.set(keys.journal(bad), 'no list');
  const found = await readEnded({ redis, keys }, [bad, good]);
  expect(found.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
});

test('a log is read after its record, so that one that is older than a new end never passes for that of it', async () => {
  const world = await redisWorld();
  const { redis, keys } = world;
  const runIds = Array.from({ length: 3 }, (_, i) => newRunId(Date.now() + i));
  for (const runId of runIds) {
    await world.seed(aRecord({ runId }));
    // More than one script reads of them: the others are read later.
    await redis.hset(keys.run(runId), 'result', `{"text":"${'x'.repeat(1_500_000)}"}`);
  }
  const commandsOn = await monitorRedis(redis);
  await readEnded({ redis, keys }, runIds);
  for (const runId of runIds) {
    const lines = await commandsOn(`{${runId}}`);
    const lastOf = (command: string) => lines.findLastIndex((line) => line.toLowerCase().includes(`"${command}"`));
    expect(lastOf('xrange')).toBeGreaterThan(lastOf('hgetall'));
    expect(lastOf('hgetall')).toBeGreaterThan(-1);
  }
});

test('a value with a line break stays one line', async () => {
  const world = await redisWorld();
  const { redis, keys } = world;
  const runId = newRunId(Date.now());
  await world.seed(aRecord({ runId }));
  await redis.hset(keys.run(runId), 'thread', 'a\nJ{"t":"closed"}');
  await redis.rpush(keys.journal(runId), '{"t":\n"closed"}');
  const [found] = await readEnded({ redis, keys }, [runId]);
  const lines = found?.status === 'fulfilled' ? found.value?.lines.split('\n') : [];
  expect(lines).toContain('Rthread a J{"t":"closed"}');
  expect(lines?.filter((line) => line.startsWith('J')).at(-1)).toBe('J{"t": "closed"}');
});

test('records of many megabytes are all read', async () => {
  const world = await redisWorld();
  const { redis, keys } = world;
  const runIds = Array.from({ length: 5 }, (_, i) => newRunId(Date.now() + i));
  for (const [i, runId] of runIds.entries()) {
    await world.seed(aRecord({ runId }));
    await redis.hset(keys.run(runId), 'result', `{"text":"${String(i).repeat(700_000)}"}`);
  }
  const found = await readEnded({ redis, keys }, runIds);
  for (const [i, run] of found.entries()) {
    if (run.status === 'rejected') throw run.reason;
    expect(run.value?.lines).toContain(`\nRresult {"text":"${String(i).repeat(700_000)}"}\n`);
  }
});

test('the decisions of a run are among its lines, also beside a run that has none', async () => {
  const world = await redisWorld();
  const { redis, keys } = world;
  const [decided, other] = [newRunId(Date.now()), newRunId(Date.now())];
  for (const runId of [decided, other]) await world.seed(aRecord({ runId }));
  await redis.hset(keys.decisions(decided), 'c1', '{"id":"c1"}', 'c2', '{"id":"c2"}');
  const found = await readEnded({ redis, keys }, [decided, other]);
  const decisions = found.map((run) =>
    run.status === 'fulfilled' ? run.value?.lines.split('\n').filter((line) => line.startsWith('D')) : run.reason,
  );
  expect(decisions).toEqual([['D{"id":"c1"}', 'D{"id":"c2"}'], []]);
});
