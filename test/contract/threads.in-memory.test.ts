import { expect, test } from 'vitest';
import { inMemoryThreads } from '../../src/worker/local/stores/in-memory-threads.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { threadsContract } from './threads.ts';
import { aRun, tenant, type ThreadsWorld } from './threads-world.ts';

async function makeWorld(): Promise<ThreadsWorld> {
  const clock = new FakeClock();
  return { clock, threads: inMemoryThreads(clock) };
}

threadsContract('In memory', makeWorld);

test('of more than 1,000 threads free ones make room, the longest unchanged first', async () => {
  const { clock, threads } = await makeWorld();
  for (let i = 0; i < 1_003; i++) {
    await threads.enter(aRun(`r${i}`, `t${i}`));
    if (i !== 0) await threads.leave(tenant, `t${i}`, `r${i}`);
    clock.jump(1);
  }
  expect(await threads.get(tenant, 't0')).toMatchObject({ lockOwner: 'r0' });
  for (const gone of ['t1', 't2', 't3'])
    await expect(threads.get(tenant, gone)).rejects.toMatchObject({ code: 'not_found' });
  expect(await threads.get(tenant, 't4')).toMatchObject({ threadId: 't4' });
});
