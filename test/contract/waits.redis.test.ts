import { expect, test } from 'vitest';
import { parseEvent } from '../../src/shared/contract/event.ts';
import { aCommit } from './run-fixtures.ts';
import { resumeRun } from '../../src/shared/state/run/waits/resume.ts';
import { claimed, seeded } from './store-world.ts';
import { decisionsContract } from './decisions.ts';
import { waitsContract } from './waits.ts';
import { redisWaitsWorld } from './waits-redis-world.ts';

waitsContract('Redis', () => redisWaitsWorld());
decisionsContract('Redis', () => redisWaitsWorld());

test('run.resumed goes to the lifecycle stream as well', async () => {
  const world = await redisWaitsWorld();
  const runId = await seeded(world);
  const { owner } = await claimed(world, runId);
  await world.runs.commit({ runId, owner }, aCommit(3, { patch: { status: 'suspended' }, release: 'suspended' }));
  await world.waits.resume(runId, { summary: 'approved' });
  const entries = await world.redis.xrange(world.keys.lifecycle, '-', '+');
  const last = entries.at(-1)?.[1][1] ?? '';
  expect(parseEvent(last)).toEqual((await world.events(runId)).at(-1));
});

test('a decision about an earlier wait does not end a later one', async () => {
  const world = await redisWaitsWorld();
  const runId = await seeded(world, { status: 'suspended', segment: 4 });
  const entry = { v: 1, t: 'decided', at: new Date().toISOString() } as const;
  const end = { summary: 'approved', entry, atMs: Date.now() };
  expect(await resumeRun(world.options, runId, { ...end, segment: 3 })).toBeUndefined();
  expect(await world.runs.load(runId)).toMatchObject({ status: 'suspended', segment: 4 });
  expect(await resumeRun(world.options, runId, { ...end, segment: 4 })).toMatchObject({ segment: 5 });
});
