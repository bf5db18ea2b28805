import { afterAll, beforeAll, expect, test } from 'vitest';
import { startOneNodeCluster } from '../../contract/one-node-cluster.ts';
import { silentLog, type Log } from '../../../src/shared/base/log.ts';
import { newRunId } from '../../../src/shared/base/ids.ts';
import { until } from '../../support/redis.ts';
import { startMasters } from '../../support/two-masters.ts';
import { orphanTests } from './reconcile-orphans.ts';
import { makeWorld } from './reconcile-world.ts';

let server: Awaited<ReturnType<typeof startOneNodeCluster>>;

beforeAll(async () => {
  server = await startOneNodeCluster();
});
afterAll(() => server.stop());

orphanTests('Redis Cluster', () => server.url);

/** None of the keys that belong to no run are here, with the prefix `mr`. */
const away = [16_000, 16_383] as const;

function notedWarnings(): { readonly log: Log; readonly warnings: readonly { readonly count?: number }[] } {
  const warnings: { readonly count?: number }[] = [];
  return { log: { ...silentLog, warn: (facts: object) => void warnings.push(facts) } as Log, warnings };
}

test.for(['is gone', 'stands still'] as const)(
  'while a node %s, the runs and threads of others are repaired, and its own once it is back',
  async (how) => {
    // The other two are a majority without it.
    const [large, , small] = await startMasters([[15_900, 15_999], away]);
    if (!large || !small) throw new Error('three masters were started');
    const { log, warnings } = notedWarnings();
    const world = await makeWorld({ log, url: `redis+cluster://127.0.0.1:${large.port}`, prefix: 'mr' });
    const { redis, keys } = world;
    // A queue asks any node for its version when it is opened: a worker has its queues open.
    expect(await world.pass()).toBe(0);
    expect(await world.jobs()).toEqual([]);
    const slotOf = async (key: string) => Number(await large.redis.call('CLUSTER', 'KEYSLOT', key));
    const isThere = async (key: string) => (await slotOf(key)) >= away[0];
    const runOn = async (there: boolean) =>
      await until('a run id of that node', async () => {
        const runId = newRunId(Date.now());
        return (await isThere(keys.run(runId))) === there ? runId : undefined;
      });
    const stranded = await Promise.all(Array.from({ length: 3 }, () => runOn(true)));
    const healthy = await Promise.all(Array.from({ length: 3 }, () => runOn(false)));
    // The stranded ones come first in their page.
    for (const runId of [...stranded, ...healthy]) await world.seed({ runId });
    for (const [i, runId] of [...stranded, ...healthy].entries()) await redis.zadd(keys.checks, i + 1, runId);
    const inThread = { tenant: 'default', agentId: 'support' };
    const ended = await runOn(false);
    await world.seed({ runId: ended, status: 'completed', endedAt: new Date().toISOString() });
    const threadOn = async (there: boolean) => {
      for (let i = 0; ; i++) if ((await isThere(keys.thread('default', `t${i}`, 'manifest'))) === there) return `t${i}`;
    };
    const threads = { stranded: await threadOn(true), healthy: await threadOn(false) };
    for (const threadId of Object.values(threads)) await world.threads.enter({ ...inThread, threadId, runId: ended });
    await world.threadsAreDue();

    if (how === 'is gone') await small.server.stop('SIGKILL');
    else process.kill(small.server.pid, 'SIGSTOP');
    expect(await world.pass()).toBe(3);
    expect(new Set(await world.jobs())).toEqual(new Set(healthy.map((runId) => `${runId}-s1`)));
    expect(await world.threads.get('default', threads.healthy)).not.toHaveProperty('lockOwner');
    expect(world.unreachable()).toBe(4);
    expect(warnings.filter(({ count }) => count !== undefined)).toEqual([expect.objectContaining({ count: 4 })]);
    // They are due again, soon and not at once, so that they take no place in the next page.
    for (const runId of stranded) expect(Number(await redis.zscore(keys.checks, runId))).toBeGreaterThan(Date.now());
    const member = `default:${threads.stranded}`;
    expect(Number(await redis.zscore(keys.threadChecks, member))).toBeGreaterThan(Date.now());

    if (how === 'is gone') await small.restart();
    else process.kill(small.server.pid, 'SIGCONT');
    await until(
      'the node serves',
      async () => (await redis.exists(keys.run(stranded[0] as string)).catch(() => 0)) === 1,
    );
    for (const runId of stranded) await redis.zadd(keys.checks, 1, runId);
    await world.threadsAreDue();
    await world.pass();
    expect(await world.jobs()).toHaveLength(6);
    expect(await world.threads.get('default', threads.stranded)).not.toHaveProperty('lockOwner');
  },
);
