import { expect, test } from 'vitest';
import { createRuns, newRun } from '../../../src/shared/state/run/create-runs.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import type { CancelRequest } from '../../../src/shared/contract/control.ts';
import { parseEvent } from '../../../src/shared/contract/event.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import { recordFromHash } from '../../../src/shared/contract/run.ts';
import type { RunKeySpace } from '../../../src/shared/state/script.ts';
import { forgetOpen } from '../../../src/shared/state/run/open-runs.ts';
import { keysFor } from '../../../src/shared/state/keys.ts';
import { stopRun } from '../../../src/shared/state/run/control/stop-run.ts';
import { redisRuns } from '../../../src/shared/state/run/run-store.ts';
import { redisSupervision } from '../../../src/shared/state/run/supervision.ts';
import { claimed } from '../../contract/store-world.ts';
import { testPrefix, testRedis, until } from '../../support/redis.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

/** Processes that keep the rules of a Cluster: no script touches two runs, nor the stream of all of them. */
async function fleet() {
  const redis = await testRedis();
  const keys = keysFor(testPrefix());
  const published = async () => {
    const entries = await redis.xrange(keys.lifecycle, '-', '+');
    return entries.map(([, [, json = '']]) => parseEvent(json)).map((event) => `${event.sequenceNumber} ${event.type}`);
  };
  return {
    redis,
    keys,
    published,
    process: () => runKeySpace(redis, keys, true),
    /** Another type at its key: every XADD is refused. */
    breakStream: () => redis.set(keys.lifecycle, 'x'),
    repairStream: () => redis.del(keys.lifecycle),
  };
}

async function created(space: RunKeySpace): Promise<string> {
  const run = newRun({ agent: 'a', input: 'x' }, { tenant: 'default' }, 'n');
  expect(await createRuns([run], 'default', space)).toMatchObject([{ kind: 'created' }]);
  return run.runId;
}

test('a lifecycle event that its stream did not take is published later, before the next one of its run', async () => {
  const { redis, keys, published, process, breakStream, repairStream } = await fleet();
  await breakStream();
  const runId = await created(process());
  expect(await redis.xlen(keys.unpublished(runId))).toBe(1);
  expect(await redis.ttl(keys.unpublished(runId))).toBeGreaterThan(6 * 86_400);
  await repairStream();
  const worker = { ...process(), clock: systemClock, log: silentLog };
  await claimed({ runs: redisRuns(worker) }, runId);
  await until('both are published', async () => (await published()).length === 2);
  expect(await published()).toEqual(['1 run.queued', '3 run.started']);
  await until('nothing is left behind', async () => (await redis.exists(keys.unpublished(runId))) === 0);
});

test('the reconciler publishes the end of a run that its stream did not take', async () => {
  const { redis, keys, published, process, breakStream, repairStream } = await fleet();
  const space = process();
  const runId = await created(space);
  await breakStream();
  const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };
  const record = recordFromHash(await redis.hgetall(keys.run(runId)));
  expect(await stopRun(record, cancel, space)).toBe('ended_here');
  await forgetOpen(space, runId, 'default');
  expect(await redis.zscore(keys.open, runId)).toBeNull();
  const soon = Number(await redis.zscore(keys.checks, runId));
  expect(soon).toBeGreaterThan(Date.now());

  const due = async () => {
    await redis.zadd(keys.checks, 0, runId);
    const supervision = redisSupervision(process());
    const [open] = await supervision.dueRuns(10);
    await supervision.forget(runId);
    return open?.unpublished;
  };
  expect(await due()).toBe(true);
  expect(await redis.zscore(keys.checks, runId)).not.toBeNull();
  await repairStream();
  expect(await due()).toBe(false);
  expect(await redis.zscore(keys.checks, runId)).toBeNull();
  expect(await published()).toEqual(['2 run.cancelled']);
});

test('a process that publishes for one run many times at once publishes each event once, and all in order', async () => {
  const { redis, keys, process } = await fleet();
  const space = process();
  const event = (number: number) => `{"v":1,"sequenceNumber":${number},"type":"run.queued"}`;
  for (let number = 1; number <= 120; number++) await redis.xadd(keys.unpublished('r'), '*', 'e', event(number));
  await Promise.all(Array.from({ length: 20 }, () => space.lifecycle.publish('r')));
  await until('nothing is left', async () => (await redis.exists(keys.unpublished('r'))) === 0);
  const numbers = (await redis.xrange(keys.lifecycle, '-', '+')).map(
    ([, [, json = '']]) => JSON.parse(json).sequenceNumber,
  );
  expect(numbers).toEqual(Array.from({ length: 120 }, (_, i) => i + 1));
});
