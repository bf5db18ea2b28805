import { onTestFinished } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { silentLog, type Log } from '../../../src/shared/base/log.ts';
import { isClusterUrl, type RedisConnection } from '../../../src/shared/state/connect.ts';
import { bullPrefix, keysFor } from '../../../src/shared/state/keys.ts';
import { recordFromHash, type RunJob, type RunRecord, recordToHash } from '../../../src/shared/contract/run.ts';
import { tenantsOf } from '../../../src/shared/contract/tenants.ts';
import type { AddJob } from '../../../src/shared/state/run/waits/resume.ts';
import { RunQueues } from '../../../src/shared/state/fleet/queues.ts';
import { Reconciler } from '../../../src/worker/jobs/reconcile.ts';
import { redisLedger } from '../../../src/shared/state/money/ledger.ts';
import { redisSupervision } from '../../../src/shared/state/run/supervision.ts';
import { redisThreads } from '../../../src/shared/state/thread/threads.ts';
import { aRecord } from '../../contract/run-fixtures.ts';
import { testPrefix, testRedis } from '../../support/redis.ts';
import { runKeySpace } from '../../support/run-key-space.ts';

export interface ReconcileWorldOptions {
  /** Of a Redis of its own, which may be a Cluster. */
  readonly url?: string;
  readonly prefix?: string;
  /** What the reconciler sees of Redis in place of the connection itself. */
  readonly through?: (redis: RedisConnection) => RedisConnection;
  readonly log?: Log;
}

/** A reconciler over real stores and queues; which runs it resumes, stops or abandons is only noted. */
export async function makeWorld(options: ReconcileWorldOptions = {}) {
  const { url, prefix = testPrefix(), through = (plain) => plain, log = silentLog } = options;
  const cluster = url !== undefined && isClusterUrl(url);
  const redis = await testRedis('blocking', url);
  const keys = keysFor(prefix);
  const seen = through(redis);
  const supervision = redisSupervision(runKeySpace(seen, keys, cluster));
  const queues = new RunQueues(redis, bullPrefix(prefix, cluster), () => {});
  onTestFinished(() => queues[Symbol.asyncDispose]());
  const abandoned: Pick<RunJob, 'runId' | 'segment'>[] = [];
  let unserved = 0;
  let unreachable = 0;
  const woken: string[] = [];
  const ledger = redisLedger({
    redis,
    keys,
    clock: systemClock,
    log,
    tenants: tenantsOf({}),
    costsRetentionDays: 1,
  });
  const threadKeySpace = { redis, keys, cluster, clock: systemClock };
  const addJob: AddJob = async ({ runId, queue, kind, segment }) =>
    await queues.add(queue, { runId, kind, segment }, { first: true });
  const threads = redisThreads(threadKeySpace, addJob);
  const stopped: string[] = [];
  const endedChildren: string[] = [];
  const reconciler = new Reconciler({
    threads,
    runs: {
      load: async (runId) => {
        const hash = await redis.hgetall(keys.run(runId));
        return Object.keys(hash).length === 0 ? undefined : recordFromHash(hash);
      },
    },
    children: {
      stop: async (runIds) => {
        stopped.push(...runIds);
        return [];
      },
      ended: async (runId) => void endedChildren.push(runId),
    },
    supervision,
    queues,
    ledger,
    log,
    wake: (runId) => woken.push(runId),
    abandon: async (job) => void abandoned.push(job),
    onUnservedQuarantine: () => (unserved += 1),
    onRequeued: () => {},
    onUnreachable: () => (unreachable += 1),
  });
  return {
    redis,
    keys,
    cluster,
    queues,
    prefix,
    supervision,
    abandoned,
    threads,
    stopped,
    endedChildren,
    woken,
    unserved: () => unserved,
    unreachable: () => unreachable,
    pass: () => reconciler.pass(),
    async seed(changes: Partial<RunRecord> = {}) {
      const record = aRecord(changes);
      await redis.zadd(keys.open, Date.parse(record.createdAt), record.runId);
      const { agent, thread = '' } = record.request;
      await redis.hset(keys.run(record.runId), { ...recordToHash(record), owner: '', held: '0', agent, thread });
      return record.runId;
    },
    /** As if the time had passed since they were entered. */
    async threadsAreDue() {
      for (const member of await redis.zrange(keys.threadChecks, 0, '-1'))
        await redis.zadd(keys.threadChecks, 1, member);
    },
    jobs: async (queue = 'runs') => (await queues.get(queue).getJobs()).map((job) => job.id),
    isOpen: async (runId: string) => (await redis.zscore(keys.open, runId)) !== null,
  };
}
