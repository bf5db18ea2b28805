import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { agentViewOf } from '../shared/contract/agent/agent.ts';
import type { AddJob } from '../shared/state/run/waits/resume.ts';
import { systemClock } from '../shared/base/clock.ts';
import { closedNames } from '../shared/base/closed-names.ts';
import type { Config } from '../shared/contract/config.ts';
import type { Family } from '../shared/state/run/children/children.ts';
import { endUnstarted } from '../shared/state/run/end-unstarted.ts';
import { LifecycleStream } from '../shared/state/lifecycle-stream.ts';
import type { Log } from '../shared/base/log.ts';
import { postrunQueues, quarantineQueue } from '../shared/contract/queues.ts';
import type { Redactor } from '../shared/base/redact.ts';
import type { RunPlace } from '../shared/state/script.ts';
import type { Tenants } from '../shared/contract/tenants.ts';
import { WriteProbe } from '../shared/state/write-probe.ts';
import { connect, isClusterUrl, whenReady } from '../shared/state/connect.ts';
import { bullPrefix, keysFor } from '../shared/state/keys.ts';
import { modelsOf } from './agents/chain.ts';
import { Consumer } from './jobs/consumer.ts';
import { DeadlineWatch } from './jobs/deadlines.ts';
import { PostrunConsumer } from './jobs/postrun.ts';
import { RunQueues } from './jobs/queues.ts';
import { Reconciler, scheduleReconciler } from './jobs/reconcile.ts';
import { Waker } from './jobs/wake.ts';
import { dispatchEffects } from './jobs/dispatch.ts';
import { runEffect } from './jobs/run-effect.ts';
import { createPriceLookup, loadPrices } from './llm/prices.ts';
import type { Providers } from './llm/backends/providers.ts';
import { serveHealth } from './ops/health.ts';
import type { KnownLabels } from './ops/metrics/labels.ts';
import { WorkerMetrics } from './ops/metrics/metrics.ts';
import type { Ports } from './run/ports.ts';
import type { Embedder } from './jobs/embedder.ts';
import type { LoadTask } from './agents/load-task.ts';
import { CancelWatch } from './run/cancel-watch.ts';
import { FlushTimer } from './run/flush-timer.ts';
import { configuredModels } from './agents/known-names.ts';
import { giveUpRun } from './run/give-up.ts';
import { logAccepted, logEnded } from './run/run-log.ts';
import type { LoadedAgent } from './agents/load-agents.ts';
import type { RunDeps } from './run/open-run.ts';
import type { NamedFunctions } from './agents/named-functions.ts';
import { Watch } from './run/watch.ts';
import { artifactsFor } from '../shared/state/results/artifacts-for.ts';
import { redisBreakers } from '../shared/state/limits/shared-breakers.ts';
import { redisChildren } from '../shared/state/run/children/redis-children.ts';
import { redisGovernor } from '../shared/state/limits/rate/limiters.ts';
import { redisLedger } from '../shared/state/money/ledger.ts';
import { redisMedia } from '../shared/state/results/media-store.ts';
import { redisTimers } from '../shared/state/run/waits/redis-timers.ts';
import { redisWaits } from '../shared/state/run/waits/redis-waits.ts';
import { RedisControlChannel } from '../shared/state/run/control/redis-control.ts';
import { RedisRuns } from '../shared/state/run/redis-runs.ts';
import { redisInbox } from '../shared/state/run/control/redis-inbox.ts';
import { redisThreads } from '../shared/state/thread/redis-threads.ts';
import { redisSupervision } from '../shared/state/run/redis-supervision.ts';
import type { Toolkit } from './agents/toolkit.ts';
import { packageVersion } from '../shared/base/version.ts';

const heartbeatMs = 5_000;
const reconcileMs = 10_000;

export interface WorkerOptions {
  readonly config: Config;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  /** Absent: there are no tasks. */
  readonly loadTask?: LoadTask;
  readonly providers: Providers;
  /** The functions that requests name. */
  readonly functions: NamedFunctions;
  readonly tenants: Tenants;
  /** Not closed here. */
  readonly toolkit: Toolkit;
  /** Makes and keeps vectors of what was said in threads. */
  readonly embedder?: Embedder;
  readonly onAuthError?: (provider: string, signal: AbortSignal) => Promise<boolean>;
  /** Called when runs wait in quarantine and nobody serves it. */
  readonly lendQuarantine: (waiting: number) => void;
}

/** A worker that takes jobs. */
export interface RunningWorker {
  readonly name: string;
  readonly healthPort: number;
  /** Runs that it works on now. */
  active(): number;
  /** Stops taking jobs, lets runs reach their next commit, hands over the rest after `graceMs`, and disconnects. */
  stop(graceMs: number): Promise<void>;
}

/** Puts the rooms together: the one place that constructs. Rejects when Redis does not answer within 30 s. */
export async function buildWorker({
  config,
  log,
  redactor,
  agents,
  functions,
  loadTask,
  providers,
  tenants,
  toolkit,
  embedder,
  onAuthError,
  lendQuarantine,
}: WorkerOptions): Promise<RunningWorker> {
  // Before anything is opened: what is wrong with the agents must not leave a connection behind.
  const models = modelsOf(providers, {
    price: createPriceLookup(config.MILLRACE_PRICES, providers.prices),
    agents: agents.values(),
    ...(onAuthError && { onAuthError }),
  });
  const priced = config.MILLRACE_PRICES === undefined ? [] : loadPrices(config.MILLRACE_PRICES).prices;
  const vectors = embedder ? [embedder.model] : [];
  const named = [...config.MODEL_ALLOWLIST, ...priced.map(({ model }) => model), ...vectors];
  const knownModels = configuredModels(agents.values(), named, providers);
  const cluster = isClusterUrl(config.REDIS_URL);
  const keys = keysFor(config.MILLRACE_PREFIX);
  const prefix = bullPrefix(config.MILLRACE_PREFIX, cluster);
  const onError = (error: Error) => log.debug({ err: error }, 'redis connection error');
  const work = connect(config.REDIS_URL, 'work', onError);
  const queueing = connect(config.REDIS_URL, 'blocking', onError);
  const subscriber = connect(config.REDIS_URL, 'subscribe', onError);
  await whenReady(work, 30_000);

  const name = `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
  const startedAt = new Date().toISOString();
  const lifecycle = new LifecycleStream({ redis: work, keys, cluster }, (err, runId) =>
    log.warn({ err, runId }, 'lifecycle events are told later'),
  );
  const runPlace: RunPlace = {
    redis: work,
    keys,
    cluster,
    lifecycle,
    eventLogMax: config.EVENT_LOG_MAX,
    eventLogTtlS: config.EVENT_LOG_TTL_S,
    resultTtlS: config.RESULT_TTL_S,
  };
  const runs = new RedisRuns({ ...runPlace, clock: systemClock, log });
  const kept = await artifactsFor(config, { redis: work, keys, clock: systemClock, log }).catch((error: unknown) => {
    for (const connection of [work, queueing, subscriber]) connection.disconnect();
    throw error;
  });
  const control = new RedisControlChannel({ subscriber, channel: keys.control, log });
  await control.start();
  const writes = new WriteProbe(work, keys);
  const metrics = new WorkerMetrics({
    active: () => consumer.active,
    concurrency: config.WORKER_CONCURRENCY,
    queues: config.WORKER_QUEUES,
    breakers: () => ports.breakers.states(),
    redisUp: async () => (await writes.look())?.redis !== 'away',
    known: { ...knownLabels(agents, functions), models: knownModels },
  });
  const addJob: AddJob = async ({ runId, queue, kind, segment }) =>
    await queues.add(queue, { runId, kind, segment }, 'front');
  const threadPlace = { redis: work, keys, cluster, clock: systemClock };
  const family: Family = {
    place: runPlace,
    threads: threadPlace,
    addJob,
    onAccepted: (run) => logAccepted(log, run, name),
    onEnded: (run, last) => {
      metrics.observe(last, { agentId: run.request.agent, kind: run.kind });
      logEnded(log, run, name);
    },
  };
  const ports: Ports = {
    runs,
    control,
    media: redisMedia({ redis: work, keys, ttlS: config.RESULT_TTL_S }),
    waits: redisWaits({ ...runPlace, clock: systemClock }),
    threads: redisThreads(threadPlace, addJob),
    inbox: redisInbox(runPlace),
    deadlines: redisTimers(work, keys.deadlines),
    children: redisChildren(family),
    ledger: redisLedger({
      redis: work,
      keys,
      clock: systemClock,
      log,
      tenants,
      costsRetentionDays: config.COSTS_RETENTION_DAYS,
    }),
    governor: redisGovernor({ redis: work, keys, clock: systemClock, observe: metrics.rateLimiter }),
    breakers: redisBreakers({ redis: work, subscriber, keys, clock: systemClock, log }),
    clock: systemClock,
    log,
    redactor,
    observe: (event, context) => metrics.observe(event, context),
  };
  const supervision = redisSupervision(runPlace);
  const queues = new RunQueues(queueing, prefix, (error) => log.debug({ err: error }, 'queue connection error'));
  const waker = new Waker({ ...ports, queues, log });
  const deadlineWatch = new DeadlineWatch({
    ...ports,
    queues,
    wake: (runId, summary) => waker.wake(runId, summary),
    end: (record, error, options) => endUnstarted(record, error, family, options),
  });
  const cancels = new CancelWatch(ports);
  const deps: Omit<RunDeps, 'stopping'> = {
    ports,
    agents,
    functions,
    cancels,
    flushTimer: new FlushTimer(config.STREAM_FLUSH_MS),
    limitCaps: { maxSteps: config.MAX_STEPS_CAP },
    metrics: { money: metrics.money, modelName: closedNames(knownModels), compacted: metrics.compacted },
    patienceMs: config.PROVIDER_WAIT_MS,
    tenants,
    suspects: {
      watch: new Watch(config.LOCK_DURATION_MS / 5, (runId) => supervision.watching(name, runId)),
      isExcused: (worker, runId) => supervision.isExcused(worker, runId),
    },
    wake: (runId, summary) => waker.wake(runId, summary),
    dispatchEffects: (record) => dispatchEffects(record, { queues, agents, embeds: embedder !== undefined }),
    tools: { ...toolkit.services({ ...kept, breakers: ports.breakers }), agents: () => agents },
    ...(loadTask && { loadTask }),
    ...models,
  };
  const giveUp = (reason: 'poison' | 'job_lost') => (job: Parameters<typeof giveUpRun>[0]) =>
    giveUpRun(job, reason, name, { ...deps, stopping: () => false });
  const consumer = new Consumer({
    connection: queueing,
    bullPrefix: prefix,
    queues: config.WORKER_QUEUES,
    concurrency: config.WORKER_CONCURRENCY,
    worker: name,
    lockDurationMs: config.LOCK_DURATION_MS,
    stalledIntervalMs: config.STALLED_INTERVAL_MS,
    deps,
    log,
    giveUp: giveUp('poison'),
    async quarantine(job) {
      const segment = await supervision.requeue(job.runId, job.segment, quarantineQueue);
      if (segment === undefined) return;
      await queues.add(quarantineQueue, { runId: job.runId, kind: job.kind, segment });
      await supervision.count('quarantined', 1);
      log.warn({ runId: job.runId }, 'run keeps losing its workers and goes to quarantine');
      await reconciler.lookAfterQuarantine();
    },
  });
  const postrun = new PostrunConsumer({
    connection: queueing,
    bullPrefix: prefix,
    queues: postrunQueues(config.WORKER_QUEUES),
    worker: name,
    lockDurationMs: config.LOCK_DURATION_MS,
    stalledIntervalMs: config.STALLED_INTERVAL_MS,
    log,
    async run(job, delivery, signal) {
      const end = await runEffect(job, delivery, { ...deps, ...(embedder && { embedder }) }, signal);
      if (end !== 'failed') return;
      metrics.postrunFailed(job.effect);
      // The effect is over, whether it can be counted or not.
      await supervision.count('effects_failed', 1).catch((err: unknown) => log.debug({ err }, 'not counted'));
    },
  });
  const reconciler = new Reconciler({
    supervision,
    queues,
    ledger: ports.ledger,
    threads: ports.threads,
    runs,
    children: ports.children,
    log,
    wake: deps.wake,
    giveUp: giveUp('job_lost'),
    onUnservedQuarantine: lendQuarantine,
    onPutBack: () => metrics.requeued.inc(),
    onUnreachable: () => metrics.unreachable.inc(),
  });
  const beat = async () => {
    const info = {
      name,
      queues: config.WORKER_QUEUES,
      concurrency: config.WORKER_CONCURRENCY,
      active: consumer.active,
      startedAt,
      version: packageVersion,
    };
    await supervision
      .heartbeat(info)
      .catch((error: unknown) => log.debug({ err: error }, 'heartbeat did not reach redis'));
  };
  let stopping = false;
  const health = await serveHealth(config.WORKER_PORT, config.HOST, {
    live: () => consumer.running,
    notReady: async () => (stopping ? 'draining' : (await writes.look())?.reason),
    metrics: async () => ({ contentType: metrics.registry.contentType, body: await metrics.registry.metrics() }),
  });
  const views = [...agents.values()].map((agent) => agentViewOf(agent.definition));
  await supervision.announceAgents(views);
  await beat();
  const heartbeat = setInterval(() => void beat(), heartbeatMs);
  // A lock was renewed at most half its time ago when its worker dies, so that the pulse is over before anybody takes the run up.
  const pulse = async () =>
    await supervision
      .pulse(name, config.LOCK_DURATION_MS * 0.4)
      .catch((error: unknown) => log.debug({ err: error }, 'pulse did not reach redis'));
  await pulse();
  const pulsing = setInterval(() => void pulse(), config.LOCK_DURATION_MS / 10);
  const announcing = setInterval(() => {
    supervision.announceAgents(views).catch((error: unknown) => log.debug({ err: error }, 'agents were not announced'));
  }, 60_000);
  const scheduler = await scheduleReconciler(reconciler, {
    connection: queueing,
    bullPrefix: prefix,
    queues,
    everyMs: reconcileMs,
    lockDurationMs: config.LOCK_DURATION_MS,
    stalledIntervalMs: config.STALLED_INTERVAL_MS,
    log,
  });
  await Promise.all([consumer.start(), postrun.start()]);

  return {
    name,
    healthPort: health.port,
    active: () => consumer.active,
    async stop(graceMs) {
      stopping = true;
      clearInterval(announcing);
      await Promise.all([consumer.stop(graceMs), postrun.stop(graceMs)]);
      clearInterval(heartbeat);
      clearInterval(pulsing);
      await scheduler[Symbol.asyncDispose]();
      await supervision
        .farewell(name)
        .catch((error: unknown) => log.debug({ err: error }, 'farewell did not reach redis'));
      await deadlineWatch[Symbol.asyncDispose]();
      await waker[Symbol.asyncDispose]();
      await ports.governor[Symbol.asyncDispose]();
      await ports.breakers[Symbol.asyncDispose]();
      await kept[Symbol.asyncDispose]();
      await queues[Symbol.asyncDispose]();
      cancels[Symbol.dispose]();
      await control[Symbol.asyncDispose]();
      await health[Symbol.asyncDispose]();
      for (const connection of [work, queueing, subscriber]) connection.disconnect();
    },
  };
}

/** What the metrics begin with at 0. */
function knownLabels(agents: RunDeps['agents'], { adapters }: NamedFunctions): Omit<KnownLabels, 'models'> {
  const definitions = [...agents.values()].map(({ definition }) => definition);
  return {
    agents: [...definitions.map(({ id }) => id), ...adapters.keys()],
    tools: definitions.flatMap(({ tools }) => tools.filter((name) => !name.startsWith('mcp:'))),
  };
}
