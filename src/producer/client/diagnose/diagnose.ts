import { z } from 'zod';
import { pairsOf } from '../../../shared/base/collections.ts';
import { providerReport } from '../../../shared/contract/provider-report.ts';
import { workerTtlMs } from '../../../shared/state/fleet/fleet.ts';
import { maintenanceQueue, postrunQueues, quarantineQueue } from '../../../shared/contract/queues.ts';
import type { ArchiveUsage } from '../../../shared/state/archive/archive.ts';
import { redisBatches } from '../../../shared/state/batch/batches.ts';
import { type RedisConnection, mastersOf } from '../../../shared/state/connect.ts';
import { isTerminalStatus, type RunStatus } from '../../../shared/contract/run.ts';
import { flowFacts, type FlowFacts } from './flow-facts.ts';
import { waitFacts, type WaitFacts } from './wait-facts.ts';
import type { QueueState } from '../enqueue.ts';
import { reach, type Connected, type TenantClient } from '../client-core.ts';

/** What an acknowledged run survives: nothing, a killed process, a lost host, a lost Redis server. */
export const durabilityLevels = ['none', 'process', 'host', 'replica'] as const;
export type DurabilityLevel = (typeof durabilityLevels)[number];

const workerInfo = z.object({
  queues: z.array(z.string()).readonly().catch([]),
  /** Runs at once, at most and now. */
  concurrency: z.number().catch(0),
  active: z.number().catch(0),
  version: z.string().catch(''),
  /** As the worker has them; none of a worker of an earlier version. */
  providers: z.array(providerReport).readonly().catch([]),
});

const announcedWorker = workerInfo.extend({
  startedAt: z.string().optional().catch(undefined),
  runs: z
    .array(z.object({ runId: z.string(), since: z.string() }))
    .readonly()
    .catch([]),
});

/** A worker by its last heartbeat, with the runs of all tenants on it. */
export interface LiveWorker extends Readonly<z.infer<typeof announcedWorker>> {
  readonly name: string;
  readonly heartbeatAgeMs: number;
}

/** A worker by its last heartbeat. */
export interface WorkerFacts extends Readonly<z.infer<typeof workerInfo>> {
  readonly name: string;
  readonly heartbeatAgeMs: number;
}

/** A run that is open, has not changed for 60 seconds and has no job that could continue it. */
export interface StuckRun {
  readonly runId: string;
  readonly tenant: string;
  readonly status: string;
  readonly ageMs: number;
}

/** What Redis says about itself. In a Cluster: of the node whose settings protect least; memory is the sum. */
export interface RedisFacts {
  readonly version: string;
  readonly mode: string;
  readonly aof: boolean;
  readonly appendfsync: string | undefined;
  readonly maxmemoryPolicy: string | undefined;
  readonly usedMemoryBytes: number;
  /** 0: no limit. */
  readonly maxMemoryBytes: number;
  readonly connectedReplicas: number;
  /** Redis' clock minus ours in milliseconds, give or take half a round trip. */
  readonly clockOffsetMs: number;
  readonly roundTripMs: number;
}

/** What `doctor` and `/readyz` judge. Undefined where Redis did not answer (an ACL may forbid CONFIG). */
export interface Diagnosis {
  readonly redis: RedisFacts;
  readonly durability: DurabilityLevel;
  readonly openRuns: number;
  /** Age in milliseconds of the run that has been queued longest, by queue. */
  readonly oldestQueuedMs: Readonly<Record<string, number>>;
  readonly stuckRuns: readonly StuckRun[];
  readonly workers: readonly WorkerFacts[];
  readonly queues: Readonly<Record<string, QueueState>>;
  /** Runs in quarantine, because they keep losing their workers. */
  readonly quarantined: number;
  /** How often something happened in this fleet; under `<name>_at` when it last did, in milliseconds since the epoch. */
  readonly counters: Readonly<Record<string, number>>;
  readonly waits: WaitFacts;
  readonly flows: readonly FlowFacts[];
  /** Batches that have not ended, and live processes that advance them. */
  readonly batches: { readonly open: number; readonly processes: number };
  /** What is kept of ended runs. */
  readonly archive: ArchiveUsage;
}

const stuckAfterMs = 60_000;
/** Open runs that are looked at: those that the fleet looks at next, so runs that wait for people come last. */
const maxInspected = 1_000;

export async function diagnose(client: TenantClient): Promise<Diagnosis> {
  return await reach(client, async (at) => {
    const { core, redis } = at;
    const batches = redisBatches({ redis, keys: core.keys });
    const [facts, workers, openRuns, counters, waits, flows, open, processes, archive] = await Promise.all([
      redisFacts(redis),
      liveWorkers(at),
      redis.zcard(core.keys.open),
      redis.hgetall(core.keys.counters),
      waitFacts(at),
      flowFacts(at),
      batches.countOpen(),
      batches.processes(Date.now()),
      core.archive.usage(),
    ]);
    const queues = await depths(workers, at);
    const quarantine = queues[quarantineQueue];
    return {
      redis: facts,
      durability: durabilityOf(facts, at),
      openRuns,
      ...(await inspectOpen(at)),
      workers: workers.map(withoutRuns),
      queues,
      quarantined: quarantine ? quarantine.waiting + quarantine.active + quarantine.delayed : 0,
      waits,
      flows,
      batches: { open, processes },
      archive,
      counters: Object.fromEntries(Object.entries(counters).map(([name, count]) => [name, Number(count)])),
    };
  });
}

/** Every queue that exists. */
export async function queueDepths(client: TenantClient): Promise<Readonly<Record<string, QueueState>>> {
  return await reach(client, async (at) => depths(await liveWorkers(at), at));
}

function withoutRuns(live: LiveWorker): WorkerFacts {
  const { runs: _runs, startedAt: _startedAt, ...worker } = live;
  return worker;
}

export async function depths(workers: readonly WorkerFacts[], { core, redis }: Connected) {
  const served = workers.flatMap(({ queues }) => [...queues, ...postrunQueues(queues), maintenanceQueue]);
  const ofRuns = new Set([...(await core.directory.names(redis)), quarantineQueue]);
  const names = new Set([...ofRuns, maintenanceQueue, ...postrunQueues([...ofRuns]), ...served]);
  const stateOf = async (name: string): Promise<readonly [string, QueueState]> => [
    name,
    { ...(await core.queues.depth(name)), workers: served.filter((one) => one === name).length },
  ];
  return Object.fromEntries(await Promise.all([...names].map(stateOf)));
}

export async function liveWorkers({ core, redis }: Connected): Promise<LiveWorker[]> {
  const now = Date.now();
  const flat = await redis.zrangebyscore(core.keys.workers, now - workerTtlMs, '+inf', 'WITHSCORES');
  const beats = pairsOf(flat);
  if (beats.length === 0) return [];
  const infos = await redis.hmget(core.keys.workerInfo, ...beats.map(([name]) => name));
  return beats.map(([name, at], i) => ({
    name,
    heartbeatAgeMs: Math.max(0, now - Number(at)),
    ...announcedWorker.parse(JSON.parse(infos[i] ?? '{}')),
  }));
}

async function inspectOpen({ core, redis }: Connected): Promise<Pick<Diagnosis, 'oldestQueuedMs' | 'stuckRuns'>> {
  const runIds = await redis.zrange(core.keys.checks, 0, `${maxInspected - 1}`);
  const now = Date.now();
  const fields = await Promise.all(
    runIds.map((runId) =>
      redis.hmget(core.keys.run(runId), 'status', 'updatedAt', 'queue', 'segment', 'tenant', 'thread'),
    ),
  );
  const oldestQueuedMs: Record<string, number> = {};
  const stuckRuns: StuckRun[] = [];
  for (const [i, runId] of runIds.entries()) {
    const [status, updatedAt, queue, segment, tenant, thread] = fields[i] ?? [];
    if (!status || !updatedAt || !queue || isTerminalStatus(status as RunStatus) || status === 'suspended') continue;
    // It waits for its turn in a thread, and has no job until then.
    if (thread && (await redis.zscore(core.keys.thread(tenant ?? '', thread, 'waiters'), runId)) !== null) continue;
    const ageMs = Math.max(0, now - Date.parse(updatedAt));
    if (status === 'queued') oldestQueuedMs[queue] = Math.max(oldestQueuedMs[queue] ?? 0, ageMs);
    if (ageMs < stuckAfterMs || (await core.queues.isPending(queue, runId, Number(segment)))) continue;
    stuckRuns.push({ runId, tenant: tenant ?? '', status, ageMs });
  }
  return { oldestQueuedMs, stuckRuns };
}

async function redisFacts(redis: RedisConnection): Promise<RedisFacts> {
  const nodes = mastersOf(redis);
  const all = await Promise.all(nodes.map(factsOf));
  const weakest = all.reduce((a, b) => (protection(b) < protection(a) ? b : a));
  const sum = (of: (facts: RedisFacts) => number) => all.reduce((total, facts) => total + of(facts), 0);
  return { ...weakest, usedMemoryBytes: sum((f) => f.usedMemoryBytes), maxMemoryBytes: sum((f) => f.maxMemoryBytes) };
}

type Node = Pick<RedisConnection, 'info' | 'config' | 'time'>;

async function factsOf(node: Node): Promise<RedisFacts> {
  const startedAt = Date.now();
  const [seconds, micros] = await node.time();
  const endedAt = Date.now();
  const [info, appendfsync] = await Promise.all([node.info(), configValue(node, 'appendfsync')]);
  const field = (name: string) => new RegExp(`^${name}:(.*?)\r?$`, 'm').exec(info)?.[1];
  const number = (name: string) => Number(field(name) ?? 0);
  return {
    version: field('valkey_version') ?? field('redis_version') ?? '',
    mode: field('redis_mode') ?? field('server_mode') ?? '',
    aof: field('aof_enabled') === '1',
    appendfsync,
    maxmemoryPolicy: field('maxmemory_policy'),
    usedMemoryBytes: number('used_memory'),
    maxMemoryBytes: number('maxmemory'),
    connectedReplicas: number('connected_slaves'),
    clockOffsetMs: Math.round(Number(seconds) * 1_000 + Number(micros) / 1_000 - (startedAt + endedAt) / 2),
    roundTripMs: endedAt - startedAt,
  };
}

async function configValue(node: Node, name: string): Promise<string | undefined> {
  try {
    const [, value] = await node.config('GET', name);
    return typeof value === 'string' ? value : undefined;
  } catch {
    // Managed Redis and strict ACLs refuse CONFIG; then we do not know.
    return undefined;
  }
}

function protection({ aof, maxmemoryPolicy, appendfsync }: RedisFacts): 0 | 1 | 2 {
  if (!aof || maxmemoryPolicy !== 'noeviction') return 0;
  return appendfsync === 'always' ? 2 : 1;
}

/** A replica only counts when this client waits for it before it accepts a run. */
function durabilityOf(facts: RedisFacts, { core }: Connected): DurabilityLevel {
  const level = protection(facts);
  if (level === 0) return 'none';
  if (core.settings.durability === 'replica' && facts.connectedReplicas > 0) return 'replica';
  return level === 2 ? 'host' : 'process';
}
