import { systemClock } from '../shared/base/clock.ts';
import type { Log } from '../shared/base/log.ts';
import type { Redactor } from '../shared/base/redact.ts';
import type { Config } from '../shared/contract/config.ts';
import type { Tenants } from '../shared/contract/tenants.ts';
import { connect, isClusterUrl, whenReady, type RedisConnection } from '../shared/state/connect.ts';
import { bullPrefix, keysFor } from '../shared/state/keys.ts';
import { LifecycleStream } from '../shared/state/lifecycle-stream.ts';
import { redisRateLimiter } from '../shared/state/limits/rate/polled-limiter.ts';
import { redisBreakers } from '../shared/state/limits/breakers.ts';
import { redisLedger } from '../shared/state/money/ledger.ts';
import { artifactsFor, type OpenedArtifacts } from '../shared/state/results/artifacts-for.ts';
import { redisToolPins, type ToolPins } from '../shared/state/pins/tool-pins.ts';
import { type ArchiveStore, openArchive } from '../shared/state/archive/archive.ts';
import { LogTails } from '../shared/state/archive/log-tails.ts';
import { openFileStore } from '../shared/state/files/files.ts';
import { named } from '../shared/state/errors.ts';
import { openMedia } from '../shared/state/results/media-store.ts';
import { type Family, redisChildren } from '../shared/state/run/children/children.ts';
import { RedisControlChannel } from '../shared/state/run/control/control-channel.ts';
import { redisInbox } from '../shared/state/run/control/inbox.ts';
import { redisRuns } from '../shared/state/run/run-store.ts';
import { redisTimers, redisWaits } from '../shared/state/run/waits/waits.ts';
import type { RunKeySpace } from '../shared/state/script.ts';
import { redisThreads } from '../shared/state/thread/threads.ts';
import type { WorkerMetrics } from './ops/metrics/metrics.ts';
import type { Ports } from './run/ports.ts';

/** The connections of a worker, and where its runs are in Redis. */
export interface WorkerRedis {
  readonly space: RunKeySpace;
  /** For BullMQ. */
  readonly queueing: RedisConnection;
  readonly subscriber: RedisConnection;
  readonly bullPrefix: string;
}

/** Rejects when Redis does not answer within 30 s. `closing` disconnects. */
export async function openRedis(config: Config, log: Log, closing: AsyncDisposableStack): Promise<WorkerRedis> {
  const { REDIS_URL: url, MILLRACE_PREFIX: prefix } = config;
  const open = (role: 'work' | 'blocking' | 'subscribe') => {
    const connection = connect(url, role, (err) => log.debug({ err }, 'redis connection error'));
    closing.defer(() => connection.disconnect());
    return connection;
  };
  const [redis, queueing, subscriber] = [open('work'), open('blocking'), open('subscribe')];
  await whenReady(redis, 30_000);
  const cluster = isClusterUrl(url);
  const keys = keysFor(prefix);
  const lifecycle = new LifecycleStream({ redis, keys, cluster }, (err, runId) =>
    log.warn({ err, runId }, 'lifecycle events are published later'),
  );
  const { EVENT_LOG_MAX: eventLogMax, EVENT_LOG_TTL_S: eventLogTtlS, RESULT_TTL_S: resultTtlS } = config;
  const retention = { eventLogMax, eventLogTtlS, resultTtlS, archiveTtlS: config.ARCHIVE_TTL_S };
  const logTails = config.ARCHIVE_TTL_S > 0 ? new LogTails() : undefined;
  const space = { redis, keys, cluster, lifecycle, logTails, ...retention };
  return { space, queueing, subscriber, bullPrefix: bullPrefix(prefix, cluster) };
}

export interface StoresOptions extends Pick<Family, 'addJob' | 'onAccepted' | 'onEnded'> {
  readonly config: Config;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly tenants: Tenants;
  readonly observe: Ports['observe'];
  readonly observeLimiter: WorkerMetrics['models']['rateLimiter'];
}

export interface WorkerStores {
  readonly ports: Ports;
  /** What runs leave behind. */
  readonly artifacts: OpenedArtifacts;
  /** What is kept of ended runs. */
  readonly archive: ArchiveStore;
  /** What the tools of MCP servers were at their first use. */
  readonly pins: ToolPins;
  /** For what happens to children and to their parents. */
  readonly family: Family;
}

/** Everything that the rooms of a worker keep in Redis, or in a place that the configuration names. */
export async function openStores(
  { space, subscriber }: WorkerRedis,
  { config, log, redactor, tenants, observe, observeLimiter, ...given }: StoresOptions,
  closing: AsyncDisposableStack,
): Promise<WorkerStores> {
  const { redis, keys, cluster } = space;
  const base = { redis, keys, clock: systemClock };
  const artifacts = closing.use(await artifactsFor(config, { ...base, log }));
  const control = closing.use(new RedisControlChannel({ subscriber, channel: keys.control, log }));
  await control.start();
  const threads = { ...base, cluster };
  const family: Family = { space, threads, ...given };
  const runKeySpace = { ...space, clock: systemClock };
  const ports: Ports = {
    runs: redisRuns({ ...runKeySpace, log }),
    control,
    media: openMedia({
      ...base,
      reach: (work) => named('media', work(redis)),
      blobs: async () => artifacts.blobs,
      ttlS: config.RESULT_TTL_S,
    }),
    files: openFileStore({
      ...base,
      reach: (work) => named('files', work(redis)),
      blobs: async () => artifacts.blobs,
      maxTenantBytes: config.FILES_MAX_BYTES_PER_TENANT,
    }),
    waits: redisWaits(runKeySpace),
    threads: redisThreads(threads, given.addJob),
    inbox: redisInbox(space),
    deadlines: redisTimers(redis, keys.deadlines),
    children: redisChildren(family),
    ledger: redisLedger({ ...base, log, tenants, costsRetentionDays: config.COSTS_RETENTION_DAYS }),
    rateLimiter: closing.use(redisRateLimiter({ ...base, observe: observeLimiter })),
    breakers: closing.use(redisBreakers({ ...base, subscriber, log })),
    clock: systemClock,
    log,
    redactor,
    observe,
  };
  const archive = openArchive({
    ...base,
    reach: (work) => named('archive', work(redis)),
    kind: config.ARTIFACT_STORE.kind,
    blobs: async () => artifacts.blobs,
    ttlS: config.ARCHIVE_TTL_S,
    maxRedisBytes: config.ARCHIVE_REDIS_MAX_BYTES,
  });
  return { ports, artifacts, archive, pins: redisToolPins(base), family };
}
