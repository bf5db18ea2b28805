import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { systemClock } from '../shared/base/clock.ts';
import { closedNames } from '../shared/base/ids.ts';
import type { Log } from '../shared/base/log.ts';
import type { Redactor } from '../shared/base/redact.ts';
import { packageVersion, type Toolkit } from './agents/toolkit.ts';
import { agentSheetOf } from './agents/agent-sheet.ts';
import { agentViewOf } from '../shared/contract/agent/agent.ts';
import type { Config } from '../shared/contract/config.ts';
import { postrunQueues, quarantineQueue } from '../shared/contract/queues.ts';
import { systemAgent } from '../shared/contract/money.ts';
import type { RunJob } from '../shared/contract/run.ts';
import type { Tenants } from '../shared/contract/tenants.ts';
import { endUnstarted } from '../shared/state/run/end-unstarted.ts';
import { accountsOfRun } from './run/payment.ts';
import { redisSupervision, type Supervision } from '../shared/state/run/supervision.ts';
import { WriteProbe } from '../shared/state/write-probe.ts';
import { definitionRecord } from './agents/definition-record.ts';
import { modelsOf, type ModelsOptions } from './agents/agent-models.ts';
import { configuredModels } from './agents/known-names.ts';
import type { LoadedAgent } from './agents/loaded-agent.ts';
import type { LoadTask, NamedFunctions } from './agents/load-agents.ts';
import { Consumer } from './jobs/consumer.ts';
import { watchDeadlines } from './jobs/deadlines.ts';
import type { Embedder } from './jobs/embeddings.ts';
import { postRunConsumer, queuePostRunJobs } from './jobs/post-run-queue.ts';
import { announceWorker } from './jobs/presence.ts';
import { RunQueues } from '../shared/state/fleet/queues.ts';
import { Reconciler, scheduleReconciler } from './jobs/reconcile.ts';
import { archiveRuns } from './jobs/archive/archiver.ts';
import { runPostRunJob } from './jobs/post-run-job.ts';
import { pollForResumes } from './jobs/resume-poller.ts';
import type { Providers } from './llm/backends/providers.ts';
import { createPriceLookup, loadPrices } from './llm/prices.ts';
import { serveHealth } from './ops/health.ts';
import type { KnownLabels } from './ops/metrics/series.ts';
import { WorkerMetrics } from './ops/metrics/metrics.ts';
import { ProviderWatch } from './ops/provider-watch.ts';
import type { Observer } from './run/ports.ts';
import { CancelWatch } from './run/signals.ts';
import { FlushTimer } from './run/writer.ts';
import { abandonRun } from './run/run-job.ts';
import type { RunDeps } from './run/run-context.ts';
import { logAccepted, logEnded } from './run/run-log.ts';
import { Watch } from './run/suspect.ts';
import { openRedis, openStores, type WorkerRedis, type WorkerStores } from './stores.ts';

const reconcileMs = 10_000;

export interface WorkerOptions {
  readonly config: Config;
  readonly log: Log;
  readonly redactor: Redactor;
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  /** Absent: there are no tasks. */
  readonly loadTask?: LoadTask | undefined;
  readonly providers: Providers;
  /** The functions that requests name. */
  readonly functions: NamedFunctions;
  readonly tenants: Tenants;
  /** Closed last, also when the worker cannot be built. */
  readonly toolkit: Toolkit;
  /** Makes and keeps vectors of the messages of threads. */
  readonly embedder?: Embedder | undefined;
  readonly onAuthError?: ModelsOptions['onAuthError'];
  /** Called when runs wait in quarantine and no worker serves it. */
  readonly onUnservedQuarantine: (waiting: number) => void;
}

/** A worker that takes jobs. */
export interface RunningWorker {
  readonly name: string;
  readonly healthPort: number;
  /** Runs that it works on now. */
  active(): number;
  /** Stops taking jobs, lets runs reach their next commit, releases the rest to other workers after `graceMs`, and disconnects. */
  stop(graceMs: number): Promise<void>;
}

/** Creates and connects all parts of a worker. Rejects when Redis does not answer within 30 s. */
export async function buildWorker(options: WorkerOptions): Promise<RunningWorker> {
  const { config, log, agents, providers, onAuthError } = options;
  // Before anything is connected: what is wrong with the agents must not leave a connection behind.
  const price = createPriceLookup(config.MILLRACE_PRICES, providers.prices);
  const models = modelsOf(providers, { price, agents: agents.values(), onAuthError });
  const known = knownLabels(options);
  const name = `${hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
  const startedAt = new Date().toISOString();
  await using opening = new AsyncDisposableStack();
  opening.use(options.toolkit);
  const redis = await openRedis(config, log, opening);
  const writes = new WriteProbe(redis.space.redis, redis.space.keys);
  const onQueueError = (err: Error) => log.debug({ err }, 'queue connection error');
  const queues = opening.use(new RunQueues(redis.queueing, redis.bullPrefix, onQueueError));
  const flushTimer = new FlushTimer(config.STREAM_FLUSH_MS);
  const metrics: WorkerMetrics = new WorkerMetrics({
    active: () => consumer.active,
    concurrency: config.WORKER_CONCURRENCY,
    queues: config.WORKER_QUEUES,
    breakers: () => stores.ports.breakers.states(),
    eventLagMs: () => flushTimer.lagMs,
    redisUp: async () => (await writes.look())?.redis !== 'away',
    known,
  });
  const watch = opening.use(new ProviderWatch(providers.about, { clock: systemClock, redactor: options.redactor }));
  const observe: Observer = (event, context) => {
    watch.observe(event);
    metrics.observe(event, context);
  };
  const settings = storesOptions(options, name, queues, { metrics, observe });
  const stores: WorkerStores = await openStores(redis, settings, opening);
  const supervision = redisSupervision(redis.space);
  const parts = { options, name, redis, queues, metrics, stores, supervision, flushTimer };
  const deps: JobDeps = { ...models, ...depsOf(parts, known, opening) };
  const reconciler = reconcilerOf(parts, deps);
  const consumer: Consumer = consumerOf(parts, deps, reconciler);
  const postrun = postrunOf(parts, deps);
  let stopping = false;
  const health = opening.use(
    await serveHealth(config.WORKER_PORT, config.HOST, {
      live: () => consumer.running,
      notReady: async () => (stopping ? 'draining' : (await writes.look())?.reason),
      metrics: async () => ({ contentType: metrics.registry.contentType, body: await metrics.registry.metrics() }),
    }),
  );
  const { WORKER_QUEUES, WORKER_CONCURRENCY: concurrency } = config;
  const presence = opening.use(
    await announceWorker({
      supervision,
      log,
      lockDurationMs: config.LOCK_DURATION_MS,
      agents: [...agents.values()].map((agent) => ({
        view: agentViewOf(agent.definition, config.DATA_FLOW_MODE),
        sheet: agentSheetOf(agent, options.redactor),
      })),
      about: { name, queues: WORKER_QUEUES, concurrency, startedAt, version: packageVersion },
      active: () => consumer.active,
      runs: () => consumer.runs,
      providers: () => watch.reports(),
    }),
  );
  void watch.look();
  if (config.ARCHIVE_TTL_S > 0) opening.use(archiverOf(parts));
  opening.use(await scheduleReconciler(reconciler, { ...bullOf(parts), queues, everyMs: reconcileMs }));
  await Promise.all([consumer.start(), postrun.start()]);
  const closing = opening.move();
  return {
    name,
    healthPort: health.port,
    active: () => consumer.active,
    async stop(graceMs) {
      stopping = true;
      presence.stopAnnouncing();
      await Promise.all([consumer.stop(graceMs), postrun.stop(graceMs)]);
      await closing.disposeAsync();
    },
  };
}

/** What the jobs of a worker run on. */
type JobDeps = Omit<RunDeps, 'stopping'>;

/** What is there once the stores are open. */
interface Parts {
  readonly options: WorkerOptions;
  readonly name: string;
  readonly redis: WorkerRedis;
  readonly queues: RunQueues;
  readonly metrics: WorkerMetrics;
  readonly stores: WorkerStores;
  readonly supervision: Supervision;
  readonly flushTimer: FlushTimer;
}

/** What the metrics begin with at 0, and the names that they show. */
function knownLabels({ config, agents, functions, providers, embedder }: WorkerOptions): KnownLabels {
  const priced = config.MILLRACE_PRICES === undefined ? [] : loadPrices(config.MILLRACE_PRICES).prices;
  const vectors = embedder ? [embedder.model] : [];
  const named = [...config.MODEL_ALLOWLIST, ...priced.map(({ model }) => model), ...vectors];
  const definitions = [...agents.values()].map(({ definition }) => definition);
  return {
    agents: [...definitions.map(({ id }) => id), ...functions.adapters.keys(), systemAgent],
    tools: definitions.flatMap(({ tools }) => tools.filter((tool) => !tool.startsWith('mcp:'))),
    models: configuredModels(agents.values(), named, providers),
  };
}

function storesOptions(
  { config, log, redactor, tenants }: WorkerOptions,
  name: string,
  queues: RunQueues,
  { metrics, observe }: { readonly metrics: WorkerMetrics; readonly observe: Observer },
): Parameters<typeof openStores>[1] {
  return {
    config,
    log,
    redactor,
    tenants,
    observe,
    observeLimiter: metrics.models.rateLimiter,
    addJob: async ({ runId, queue, kind, segment }) =>
      await queues.add(queue, { runId, kind, segment }, { first: true }),
    onAccepted: (run) => logAccepted(log, run, name),
    onEnded(run, last) {
      metrics.observe(last, { agentId: run.request.agent, kind: run.kind });
      logEnded(log, run, name);
    },
  };
}

/** What runs are worked on with, apart from their models. What looks at the clock begins here. */
function depsOf(
  { options, name, queues, metrics, stores, supervision, flushTimer }: Parts,
  { models }: KnownLabels,
  opening: AsyncDisposableStack,
): Omit<JobDeps, keyof ReturnType<typeof modelsOf>> {
  const { config, log, redactor, agents, functions, loadTask, tenants, toolkit, embedder } = options;
  const { ports, artifacts, pins, family } = stores;
  const archives = config.ARCHIVE_TTL_S > 0;
  const resumePoller = opening.use(pollForResumes({ ...ports, queues, log }));
  const wake = (runId: string, summary: string) => resumePoller.wake(runId, summary);
  opening.use(
    watchDeadlines({
      ...ports,
      queues,
      wake,
      end: async (record, error, how) => {
        // What it holds for a closing call. Should it go on after all, its next call holds money again.
        if (how.anew) await ports.ledger.releaseHold(accountsOfRun(record, undefined, { agents, functions }));
        return await endUnstarted(record, error, family, how);
      },
    }),
  );
  return {
    ports,
    agents,
    functions,
    loadTask,
    tenants,
    wake,
    cancels: opening.use(new CancelWatch(ports)),
    flushTimer,
    limitCaps: {
      maxSteps: config.MAX_STEPS_CAP,
      maxJournalBytes: config.JOURNAL_MAX_BYTES,
      loopGuard: config.LOOP_GUARD === 'on',
    },
    maxInlineWaitMs: config.PROVIDER_WAIT_MS,
    metrics: {
      money: metrics.models.money,
      modelName: closedNames(models),
      compacted: metrics.runs.compacted,
      threadLocks: metrics.runs.threadLocks,
    },
    suspects: {
      watch: new Watch(config.LOCK_DURATION_MS / 5, (runId) => supervision.watching(name, runId)),
      isExcused: (worker, runId) => supervision.isExcused(worker, runId),
    },
    definitionOf: archives ? (agent) => definitionRecord(agent, redactor).digest : undefined,
    queuePostRunJobs: (record) => queuePostRunJobs(record, { queues, agents, embeds: embedder !== undefined }),
    tools: { ...toolkit.services({ ...artifacts, pins, breakers: ports.breakers }), agents: () => agents },
  };
}

/** The settings of all consumers of queues. */
function bullOf({ redis, name: worker, options: { config, log } }: Parts) {
  const { LOCK_DURATION_MS: lockDurationMs, STALLED_INTERVAL_MS: stalledIntervalMs } = config;
  return { connection: redis.queueing, bullPrefix: redis.bullPrefix, worker, lockDurationMs, stalledIntervalMs, log };
}

function abandon({ name }: Parts, deps: JobDeps, reason: Parameters<typeof abandonRun>[1]) {
  return (job: RunJob) => abandonRun(job, reason, name, { ...deps, stopping: () => false });
}

function consumerOf(parts: Parts, deps: JobDeps, reconciler: Reconciler): Consumer {
  const { options, queues, supervision } = parts;
  const { config, log } = options;
  return new Consumer({
    ...bullOf(parts),
    queues: config.WORKER_QUEUES,
    concurrency: config.WORKER_CONCURRENCY,
    deps,
    abandon: abandon(parts, deps, 'poison'),
    async quarantine({ runId, kind, segment: claimed }) {
      const segment = await supervision.requeue(runId, claimed, quarantineQueue);
      if (segment === undefined) return;
      await queues.add(quarantineQueue, { runId, kind, segment });
      await supervision.count('quarantined', 1);
      log.warn({ runId }, 'run keeps losing its workers and goes to quarantine');
      await reconciler.checkQuarantine();
    },
  });
}

function archiverOf({ options, redis: { space }, stores: { archive }, metrics }: Parts): AsyncDisposable {
  const { agents, tenants, redactor, log } = options;
  return archiveRuns({
    space,
    archive,
    agents,
    tenants,
    redactor,
    log,
    onRun: (outcome) => metrics.runs.archived(outcome),
  });
}

function postrunOf(parts: Parts, deps: JobDeps) {
  const { options, metrics, supervision } = parts;
  const { config, log, embedder } = options;
  return postRunConsumer({
    ...bullOf(parts),
    queues: postrunQueues(config.WORKER_QUEUES),
    async run(job, delivery, signal) {
      if ((await runPostRunJob(job, delivery, { ...deps, embedder }, signal)) !== 'failed') return;
      metrics.postrunFailed(job.postRun);
      // The post-run job is done, whether it can be counted or not.
      await supervision.count('postrun_jobs_failed', 1).catch((err: unknown) => log.debug({ err }, 'not counted'));
    },
  });
}

function reconcilerOf(parts: Parts, deps: JobDeps): Reconciler {
  const { options, queues, metrics, stores, supervision } = parts;
  const { log, onUnservedQuarantine } = options;
  return new Reconciler({
    ...stores.ports,
    supervision,
    queues,
    log,
    wake: deps.wake,
    abandon: abandon(parts, deps, 'job_lost'),
    onUnservedQuarantine,
    onRequeued: () => metrics.requeued.inc(),
    onUnreachable: () => metrics.unreachable.inc(),
  });
}
