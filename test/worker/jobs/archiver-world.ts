import { onTestFinished } from 'vitest';
import { newRunId } from '../../../src/shared/base/ids.ts';
import { type Log, silentLog } from '../../../src/shared/base/log.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { agentDefinition, type AgentInput } from '../../../src/shared/contract/agent/agent.ts';
import { emptyRunUsage } from '../../../src/shared/contract/money.ts';
import type { JournalEntry } from '../../../src/shared/contract/journal/journal.ts';
import { type Tenants, tenantsOf } from '../../../src/shared/contract/tenants.ts';
import type { RunRecord } from '../../../src/shared/contract/run.ts';
import { type ArchiveStore, openArchive } from '../../../src/shared/state/archive/archive.ts';
import { LogTails } from '../../../src/shared/state/archive/log-tails.ts';
import { redisBlobs } from '../../../src/shared/state/files/redis-blobs.ts';
import type { Blobs } from '../../../src/shared/state/files/blobs.ts';
import { named } from '../../../src/shared/state/errors.ts';
import { systemClock } from '../../../src/shared/base/clock.ts';
import type { Commit } from '../../../src/shared/state/run/commit.ts';
import { forgetOpen } from '../../../src/shared/state/run/open-runs.ts';
import type { OutgoingEvent } from '../../../src/shared/state/script.ts';
import type { LoadedAgent } from '../../../src/worker/agents/loaded-agent.ts';
import type { ArchivedAs } from '../../../src/worker/jobs/archive/archive-run.ts';
import { archiveRuns } from '../../../src/worker/jobs/archive/archiver.ts';
import { redisWorld } from '../../contract/redis-world.ts';
import { aClaim, aCommit, aRecord, opening } from '../../contract/run-fixtures.ts';
import { until } from '../../support/redis.ts';

export const eventLogTtlS = 50;
export const resultTtlS = 500;

/** Runs in the test Redis, or in the one at `url`, and archivers that write them where the test says. */
export async function archiverWorld(
  url?: string,
  changes: { readonly archiveTtlS?: number; readonly logTails?: LogTails | undefined } = {},
) {
  const retention = { archiveTtlS: 3_600, eventLogTtlS, resultTtlS };
  const world = await redisWorld(url, { ...retention, logTails: new LogTails(), ...changes });
  const { redis, keys, options: space } = world;
  const reach = { keys, reach: <T>(work: (connection: typeof redis) => Promise<T>) => named('a test', work(redis)) };
  const inRedis = redisBlobs(reach);
  const open = (blobs: Blobs): ArchiveStore =>
    openArchive({
      ...reach,
      clock: systemClock,
      kind: 'redis',
      blobs: async () => blobs,
      ttlS: 3_600,
      maxRedisBytes: 50_000_000,
    });
  const archive = open(inRedis);
  const outcomes: (ArchivedAs | { readonly kind: 'failed' })[] = [];

  /** A run that a worker has begun, with these entries and events; it ends with `end`. */
  const endedRun = async (
    entries: readonly JournalEntry[],
    {
      record = {},
      events = [],
      end = {},
    }: {
      readonly record?: Partial<RunRecord>;
      readonly events?: readonly OutgoingEvent[];
      readonly end?: Partial<Commit>;
    } = {},
  ) => {
    const runId = record.runId ?? newRunId(Date.now());
    const at = new Date().toISOString();
    await world.seed(aRecord({ runId, createdAt: at, updatedAt: at, ...record }));
    return await endAgain(runId, entries, { events, end });
  };

  const endAgain = async (
    runId: string,
    entries: readonly JournalEntry[],
    {
      events = [],
      end = {},
      segment = 0,
    }: { events?: readonly OutgoingEvent[]; end?: Partial<Commit>; segment?: number },
  ) => {
    const claim = await world.runs.claim(aClaim(runId, { segment }), opening(runId), opening(runId));
    if (claim.kind !== 'claimed') throw new Error(`the run is ${claim.kind}`);
    const ownership = { runId, owner: (await redis.hget(keys.run(runId), 'owner')) ?? '', tenant: claim.record.tenant };
    const mid = await world.runs.commit(ownership, aCommit(claim.seq, { entries, events }));
    if (mid.kind !== 'ok') throw new Error('fenced');
    const timestamp = new Date().toISOString();
    const status = end.patch?.status ?? 'completed';
    const last: OutgoingEvent =
      status === 'failed'
        ? { runId, timestamp, type: 'run.failed', error: anError, usage: emptyRunUsage, costMicrocents: 0 }
        : { runId, timestamp, type: 'run.completed', status: 'completed', result: { text: 'done' }, ...totals };
    const patch = { endedAt: timestamp, ...end.patch, status };
    await world.runs.commit(ownership, aCommit(mid.seq, { events: [last], release: 'terminal', ...end, patch }));
    // What the commit does beside, and does not wait for.
    await forgetOpen(space, runId, claim.record.tenant);
    const { tenant, createdAt } = claim.record;
    return { runId, tenant, createdAt, endedAt: timestamp };
  };

  return {
    ...world,
    space,
    archive,
    inRedis,
    open,
    deps: { space, agents: new Map<string, LoadedAgent>(), tenants: tenantsOf({}), redactor: new Redactor() },
    outcomes,
    endedRun,
    endAgain,
    agentOf,
    /** An archiver, until the test ends. */
    start(
      options: {
        blobs?: Blobs;
        redactor?: Redactor;
        agents?: readonly LoadedAgent[];
        tenants?: Tenants;
        log?: Log;
      } = {},
    ) {
      const {
        blobs = inRedis,
        redactor = new Redactor(),
        agents = [],
        tenants = tenantsOf({}),
        log = silentLog,
      } = options;
      const byId = new Map(agents.map((agent) => [agent.definition.id, agent]));
      const onRun = (outcome: (typeof outcomes)[number]) => void outcomes.push(outcome);
      const deps = { space, archive: open(blobs), agents: byId, tenants, redactor, log, onRun };
      const archiver = archiveRuns(deps);
      onTestFinished(() => archiver[Symbol.asyncDispose]());
      return archiver;
    },
    isDue: async (runId: string) => (await redis.zscore(keys.archiveDue, runId)) !== null,
    archived: async (run: { readonly runId: string; readonly tenant: string }) =>
      await until('the run is archived and settled', async () => {
        const found = await archive.read(run.tenant, run.runId);
        return found && (await redis.zscore(keys.archiveDue, run.runId)) === null ? found : undefined;
      }),
    /** As if the leases of all that was taken were over. */
    async leasesEnd() {
      for (const runId of await redis.zrange(keys.archiveDue, 0, '-1')) await redis.zadd(keys.archiveDue, 1, runId);
    },
  };
}

const totals = { usage: emptyRunUsage, costMicrocents: 0, steps: 1, durationMs: 1 };
const anError = { code: 'internal', message: 'broken', retryable: false } as const;

function agentOf(changes: {
  readonly id?: string;
  readonly archive?: AgentInput['archive'];
  readonly sensitivity?: 'secret';
}): LoadedAgent {
  return { definition: agentDefinition.parse({ id: 'support', model: 'm', ...changes }), tools: [], file: '' };
}
