import { expect, onTestFinished, test } from 'vitest';
import { rounds } from '../support/lane.ts';
import { planInput } from '../support/plan.ts';
import { startRedisProxy } from '../support/redis-proxy.ts';
import { seeded } from '../support/seeded.ts';
import { makeWorld } from '../support/world.ts';

const times = rounds({ fast: 10, all: 20 });

test('an enqueue whose reply is lost makes one run, and it is acknowledged', async () => {
  const random = seeded();
  const world = await makeWorld({ workers: 0 });
  const proxy = await startRedisProxy(world.fleet.redisUrl);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const client = world.fleet.client('default', proxy.url);
  await client.list();
  const ids: string[] = [];
  for (let i = 0; i < times; i++) {
    const dropped = dropAfter(random.below(4), proxy);
    const { runId } = await client.enqueue({ agent: 'plain', input: planInput({ text: `Run ${i}` }) });
    ids.push(runId);
    // A reply is still to be lost when the enqueue needed fewer than planned: any other command will do.
    await Promise.all([dropped, client.get(runId)]);
  }
  expect(new Set(ids).size).toBe(times);
  const { runs } = await world.mill.list({ limit: 100 });
  expect(runs.map(({ runId }) => runId).sort()).toEqual(ids.toSorted());
  expect((await world.mill.queueDepths())['runs']).toMatchObject({ waiting: times, active: 0 });
  await world.addWorker();
  for (const runId of ids)
    expect((await world.ended({ runId })).view).toMatchObject({ status: 'completed', recoveries: 0 });
  expect(world.provider.calls).toHaveLength(times);
});

/** Loses one reply a few turns of the event loop from now, so that every command of an enqueue gets its share. */
async function dropAfter(turns: number, proxy: Awaited<ReturnType<typeof startRedisProxy>>): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
  await proxy.dropRepliesOnce();
}
