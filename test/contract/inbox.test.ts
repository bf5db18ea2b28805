import { expect, test } from 'vitest';
import { steerRun, redisInbox } from '../../src/shared/state/run/control/inbox.ts';
import { inMemoryInbox } from '../../src/worker/local/stores/in-memory.ts';
import { inboxContract } from './inbox.ts';
import { redisWorld } from './redis-world.ts';
import { seeded } from './store-world.ts';

const at = '2026-01-02T03:04:05.000Z';

inboxContract('Redis', async (runId) => {
  const world = await redisWorld();
  await world.redis.hset(world.keys.run(runId), 'status', 'running');
  return {
    inbox: redisInbox(world.options),
    send: async (run, id) => (await steerRun(world.options, run, { id, text: id, at })) === 'delivered',
  };
});

inboxContract('In memory', async () => {
  const inbox = inMemoryInbox();
  return { inbox, send: async (runId, id) => inbox.steer(runId, { id, text: id, at }) };
});

test('a repeat is the same message, also when it was taken meanwhile', async () => {
  const world = await redisWorld();
  const runId = await seeded(world, { status: 'running', epoch: 1 });
  const inbox = redisInbox(world.options);
  const send = () => steerRun(world.options, runId, { id: 'm', text: 'hi', at });
  expect([await send(), await send()]).toEqual(['delivered', 'delivered']);
  expect(await inbox.read(runId)).toHaveLength(1);
  await inbox.drop(runId, ['m']);
  expect(await send()).toBe('delivered');
  expect(await inbox.read(runId)).toEqual([]);
});

test.each([{ endedAt: at }, { cancel: '{}' }])(
  'a run that has ended, or is about to, gets no message: %j',
  async (changes) => {
    const world = await redisWorld();
    const runId = await seeded(world, { status: 'running', epoch: 1, ...changes });
    expect(await steerRun(world.options, runId, { id: 'm', text: 'hi', at })).toBe('late');
    expect(await steerRun(world.options, 'UNKNOWN', { id: 'm', text: 'hi', at })).toBe('late');
  },
);
