import { expect } from 'vitest';
import type { RedisConnection } from '../../src/shared/state/connect.ts';
import { isTerminalStatus } from '../../src/shared/contract/run.ts';
import { until } from './redis.ts';
import type { World } from './world.ts';

/** Of a run that has ended, these may stay as long as its record; `inbox`, `relayed` and such have a time of their own. */
const ofRuns = /:\{[0-9A-Z]{26}\}:/;
/** What belongs to a thread for as long as there is one. */
const ofThreads = /:\{thread:[^}]+\}:(manifest|log|left|once|ops|events)$/;
/** What the fleet and its lists keep. Who lists what people are asked takes off what does not wait any more. */
const ofFleet =
  /:(lifecycle|_:(timers|queues|index:default|threads:default|threads-entered|thread-checks|workers|worker-info|(pulse|watched):[^:]+|agents|agent-sheets|counters|audits|asking:default|tenants-asking|breakers|limiters|batch-processes|batch-sweep))$/;
const ofMoney = /:\{ledger:[^}]+\}:(run|tenant|batch|costs|counted)/;
const ofQueues = /:(runs|runs-postrun|quarantine|maintenance|batches)(:|$)/;
/** What is kept of ended runs, and of the agents that they had: each has its own end. */
const ofArchive = /:(\{archive\}:(runs|bytes)|\{blobs:(run|agent)-[^}]+\}:parts|_:blob-(ends|sweep))$/;
const ofProviders = /:\{(breaker|limit):/;
/** What charts, the audit log and the list of limiters in use are made of: it goes by itself once it is too old to be shown. */
const ofViews = /:(\{series:[^}]+\}:(\d+:\d+|mark)|_:(series-(cursor|turn)|limiters-used)|\{audit:[^}]+\}:entries)$/;

/** Nothing that runs do stays behind once they have all ended: no lock, wait queue position, timer, listing, nor reserved money. */
export async function checkNothingLeft(world: World, redis: RedisConnection): Promise<void> {
  const { prefix } = world.fleet;
  await until('no run is open', async () => (await redis.zcard(`${prefix}:_:open`)) === 0, 60_000);
  // A worker that was killed had a lease of a minute.
  await until('all ended runs are archived', async () => (await redis.zcard(`${prefix}:_:archive-due`)) === 0, 150_000);
  await until('no job is left', async () => {
    const { maintenance: _, ...depths } = await world.mill.queueDepths();
    return Object.values(depths).every(({ waiting, active, delayed }) => waiting + active + delayed === 0);
  });
  const all = (await redis.keys(`${prefix}:*`)).toSorted();
  const known = [ofRuns, ofThreads, ofFleet, ofMoney, ofQueues, ofProviders, ofArchive, ofViews];
  expect(
    all.filter((key) => !known.some((pattern) => pattern.test(key))),
    'keys that are not needed any more',
  ).toEqual([]);
  const passing = all.filter((key) => ofRuns.test(key) || ofViews.test(key));
  const times = await Promise.all(passing.map((key) => redis.ttl(key)));
  expect(
    passing.filter((_, i) => (times[i] ?? 0) === -1),
    'keys that have to go by themselves, and never will',
  ).toEqual([]);
  expect(
    all.filter((key) => key.endsWith(':lock') && !key.includes(':maintenance:')),
    'locks',
  ).toEqual([]);
  await checkMoney(all, redis);
  await checkThreads(all, redis);
  expect(await redis.smembers(`${prefix}:_:cancels`)).toEqual([]);
  // A worker sets the timer of a wait before it suspends the run. Lost in between, it leaves one that does nothing once it is due.
  const timed = await Promise.all((await redis.zrange(`${prefix}:_:timers`, 0, '-1')).map((id) => world.mill.get(id)));
  expect(timed.filter(({ status }) => !isTerminalStatus(status))).toEqual([]);
  const { stuckRuns, openRuns, waits } = await world.mill.diagnose();
  expect({ stuckRuns, openRuns }).toEqual({ stuckRuns: [], openRuns: 0 });
  expect([...waits.people, ...waits.money, ...waits.limiters, ...waits.threads]).toEqual([]);
}

async function checkMoney(all: readonly string[], redis: RedisConnection): Promise<void> {
  const accounts = all.filter((key) => /:\{ledger:[^}]+\}:(run|tenant|batch):/.test(key));
  const fieldsOf = await Promise.all(accounts.map(async (key) => [key, await redis.hgetall(key)] as const));
  for (const [key, fields] of fieldsOf) {
    expect(Number(fields['reserved'] ?? 0), `money reserved in ${key}`).toBe(0);
    expect(Object.keys(fields).filter((field) => field.startsWith('r:'))).toEqual([]);
  }
}

async function checkThreads(all: readonly string[], redis: RedisConnection): Promise<void> {
  for (const key of all.filter((name) => name.endsWith(':manifest'))) {
    const { lockOwner, suspendedBy, rollback, interrupted } = await redis.hgetall(key);
    expect({ lockOwner, suspendedBy, rollback, interrupted }, key).toEqual({
      lockOwner: '',
      suspendedBy: '',
      rollback: '',
      interrupted: '',
    });
  }
}
