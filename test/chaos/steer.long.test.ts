import { expect, onTestFinished, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { planInput } from '../support/plan.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';

async function texts({ mill }: World, thread: string): Promise<string[]> {
  const { messages } = await mill.threads.messages(thread);
  return messages.flatMap((item) => (item.kind === 'message' ? [`${item.role}: ${item.text}`] : []));
}

test('workers killed before they clean up: an inbox message that a run read is not sent again, and a late one is sent once', async () => {
  const world = await makeWorld({ workers: 0 });
  const before = async () => {
    const proxy = await startRedisProxy(world.fleet.redisUrl);
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    return { proxy, worker: await world.addWorker({ REDIS_URL: proxy.url }) };
  };
  const redis = await testRedis('work', world.fleet.redisUrl);
  const steer = (input: string) => world.mill.enqueue({ agent: 'plain', input, thread: 'talk', onBusy: 'steer' });
  const read = planInput({ text: 'changed' });
  const late = planInput({ text: 'after all' });
  const first = await before();
  const run = await world.submit('plain', [{ text: 'one two', hold: { gate: 'first', afterPieces: 1 } }], {
    thread: 'talk',
  });
  const inbox = keysFor(world.fleet.prefix).inbox(run.runId);

  // The journal has the message, and the inbox has not yet forgotten it.
  await world.provider.gates.reached('first');
  expect((await steer(read)).runId).toBe(run.runId);
  const forgetting = first.proxy.holdBefore('\r\nlrem\r\n');
  world.provider.gates.open('first');
  await forgetting;
  expect((await steer(late)).runId).toBe(run.runId);
  await run.cancel();
  const second = await before();
  const followingUp = second.proxy.holdBefore(inbox);
  first.worker.signal('SIGKILL');
  await first.worker.exited;

  // The run has ended, and its follow-up has not begun.
  await followingUp;
  expect((await run.get()).status).toBe('cancelled');
  expect(await redis.llen(inbox)).toBe(2);
  second.worker.signal('SIGKILL');
  await second.worker.exited;

  await world.addWorker();
  await until('what came too late is answered', async () =>
    (await texts(world, 'talk')).includes('assistant: after all'),
  );
  await until('the thread is not locked', async () => (await world.mill.threads.get('talk')).lockOwner === undefined);
  expect((await texts(world, 'talk')).filter((line) => line === `user: ${read}`)).toHaveLength(1);
  expect((await world.mill.list()).runs).toHaveLength(2);
  expect(await redis.llen(inbox)).toBe(0);
});
