import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { type ArtifactStore, parseArtifactStore } from '../../shared/contract/artifacts.ts';
import type { DialectName, EventProfile } from '../../shared/dialects/project.ts';
import type { EndFacts, RunFacts } from '../../shared/contract/run-record.ts';
import type { JobKind, RunRequestInput, RunStatus } from '../../shared/contract/run.ts';
import type { Config } from '../../shared/contract/config.ts';

/** What a client did to a run: it accepted it, or cancelled it while no worker had it. */
export type RunFact = RunFacts &
  (
    | {
        readonly kind: 'accepted';
        readonly status: RunStatus;
        /** It was there already. */
        readonly attached: boolean;
        readonly thread: string | undefined;
      }
    | ({ readonly kind: 'ended'; readonly jobKind: JobKind } & EndFacts)
  );

/** How a client reaches Millrace. Everything has the default that the processes themselves use. */
export interface MillraceOptions {
  /**
   * `redis://…`, `rediss://…`, `redis+sentinel://…` or `redis+cluster://…`. Default: `REDIS_URL`; where that is not set, outside
   * production, the `millrace dev` that runs for the working directory or a folder above it; then `redis://127.0.0.1:6379`.
   */
  readonly redis?: string;
  /** Key prefix, default `mr`. Two prefixes never see each other. */
  readonly prefix?: string;
  /** Whose runs this client makes and sees. Default `default`. */
  readonly tenant?: string;
  /** The queues that a request may name. Default: `runs` and every queue that a worker announced in the last seven days. */
  readonly queues?: readonly string[];
  /** Jobs that may wait in one queue before `enqueue` refuses with `queue_full`. Default 1,000,000. */
  readonly queueMaxLength?: number;
  /** Runs that may be open before `enqueue` refuses with `queue_full` (503). Default 1,000,000. Children count and are never refused. */
  readonly maxOpenRuns?: number;
  /** The same for each tenant (429). Default 250,000. */
  readonly maxOpenRunsPerTenant?: number;
  /** Threads that a tenant may have before a run that would begin another is refused with `queue_full` (429). Default 1,000,000. */
  readonly maxThreadsPerTenant?: number;
  /** Percent of `maxmemory` at which Redis takes no more runs (503). Default 90; without `maxmemory` never. */
  readonly memoryMarkPercent?: number;
  /** The `queueTtlMs` of requests that have none. 0: they wait as long as it takes. Default 604,800,000, seven days. */
  readonly queueTtlMs?: number;
  /** Events kept per run for replay. Default 10,000. */
  readonly eventLogMax?: number;
  /** Seconds that the events of a run are kept after its end. Default 120. */
  readonly eventLogTtlS?: number;
  /** Seconds that finished runs are kept; at least 24 hours with an execution id. Default 86,400. */
  readonly resultTtlS?: number;
  /** Seconds that what a run did can be read after its end; 0: nothing is archived. The same as of the workers. Default 604,800, seven days. */
  readonly archiveTtlS?: number;
  /** The seed of the key that receipts of erasures are signed with: 32 bytes in base64. Absent: one is made and kept in Redis. */
  readonly erasureKey?: string;
  /** What archived runs may take together in Redis, where `artifactStore` is `redis`: the bound of the workers. Default 32 MiB. */
  readonly archiveRedisMaxBytes?: number;
  /** Silence on a run's channel, in milliseconds, after which its log is read again. Default 5,000. */
  readonly idleMs?: number;
  /** `replica`: a run is only accepted once a replica has it. Default `any`. */
  readonly durability?: 'process' | 'host' | 'replica' | 'any';
  /** YAML file with the budgets of tenants, as `MILLRACE_TENANTS`: their caps show before anything was spent. */
  readonly tenantsFile?: string;
  /**
   * Models that a request may name in `overrides.model` or its node; `*` allows any. Default, without a router too: the models
   * that announced agents use. Others are `model_not_allowed`.
   */
  readonly modelAllowlist?: readonly string[];
  /** Server whose `/v1/models` lists further models that a request may name. */
  readonly modelRouterUrl?: string;
  /**
   * Where files and large results are, as `ARTIFACT_STORE` says it: `redis`, `file:/path` or `s3://bucket/prefix`. The same as of
   * the workers. It is opened when it is first needed. Default `redis`, which takes files of at most 16 MiB.
   */
  readonly artifactStore?: string | ArtifactStore;
  /** What the files of one tenant may take together, in bytes. Default 10 GiB; in Redis never more than 256 MiB. */
  readonly filesMaxBytes?: number;
  /** How long the progress notes of a run are kept after the last one that this client writes, in seconds. Default 30 days. */
  readonly progressTtlS?: number;
  /** The id of the request that this client serves: the runs that it accepts carry it into the log lines of their workers. */
  readonly requestId?: string;
  /** Called for each run that this client accepted or ended. Must not throw. */
  readonly onRun?: (fact: RunFact) => void;
  /** Whether errors name the address of a Redis that does not answer. Default true; an API's callers must not learn it. */
  readonly namesAddress?: boolean;
  /** Called for connection errors, which are never thrown from an event. Default: ignored. */
  readonly onError?: (error: Error) => void;
}

export interface EventsOptions {
  /** The last sequence number that the caller already has; 0 or absent is the beginning. */
  readonly after?: number;
  /** Throws `execution_not_found` where only the archive has the events, which keeps no text deltas. A dialect needs them. */
  readonly whole?: boolean;
  /** `interactive`: of a run in the background only what its agent sends to people. Default `full`. */
  readonly profile?: EventProfile;
  /** Ends the iteration, without an error, as soon as it aborts. */
  readonly signal?: AbortSignal;
}

/** Events in the format of another system: see `docs/dialects.md`. */
export interface DialectEventsOptions extends EventsOptions {
  readonly dialect: DialectName;
}

export interface ResultOptions {
  /** Longest wait in milliseconds; 0 answers with the present state. Absent: until the run ends. */
  readonly waitMs?: number;
  /** Rejects the wait with its reason. */
  readonly signal?: AbortSignal;
}

/** The fields that any run may have. */
type Rest = Partial<Omit<RunRequestInput, 'fanOut' | 'evaluate' | 'taskRun'>>;

/** A fan-out, and what any run may have. `agent` is whose budget and limits apply; default: the first child's. */
export type FanOutRun = NonNullable<RunRequestInput['fanOut']> & Rest;

/** An evaluator-optimizer, and what any run may have. `agent` is whose budget and limits apply; default: the generator. */
export type EvaluateRun = NonNullable<RunRequestInput['evaluate']> & Rest & { readonly input: string };

/** A task for an adapter that workers have. */
export type TaskRun = NonNullable<RunRequestInput['taskRun']>;
/** What any run may have beside its task. `agent` is only shown, unless workers have one of that name; default: the adapter. */
export type TaskRunOptions = Rest & { readonly signal?: AbortSignal };

/** Throws `invalid_config`. */
export function artifactStoreOf(given: MillraceOptions['artifactStore'] = 'redis'): ArtifactStore {
  const store = typeof given === 'string' ? parseArtifactStore(given) : given;
  if (typeof store !== 'string') return store;
  throw new RunError('invalid_config', `artifactStore: ${store}`);
}

/** How the processes reach Millrace that are configured by their environment. */
export function clientOptions(config: Config): MillraceOptions & { readonly redis: string } {
  return defined({
    redis: config.REDIS_URL,
    prefix: config.MILLRACE_PREFIX,
    queueMaxLength: config.QUEUE_MAX_LENGTH,
    maxOpenRuns: config.MAX_OPEN_RUNS,
    maxOpenRunsPerTenant: config.MAX_OPEN_RUNS_PER_TENANT,
    maxThreadsPerTenant: config.MAX_THREADS_PER_TENANT,
    memoryMarkPercent: config.REDIS_MEMORY_MARK_PERCENT,
    queueTtlMs: config.QUEUE_TTL_MS,
    eventLogMax: config.EVENT_LOG_MAX,
    eventLogTtlS: config.EVENT_LOG_TTL_S,
    resultTtlS: config.RESULT_TTL_S,
    archiveTtlS: config.ARCHIVE_TTL_S,
    archiveRedisMaxBytes: config.ARCHIVE_REDIS_MAX_BYTES,
    erasureKey: config.ERASURE_KEY,
    durability: config.MILLRACE_DURABILITY,
    modelAllowlist: config.MODEL_ALLOWLIST,
    queues: config.MILLRACE_QUEUES,
    modelRouterUrl: config.MODEL_ROUTER_URL,
    artifactStore: config.ARTIFACT_STORE,
    filesMaxBytes: config.FILES_MAX_BYTES_PER_TENANT,
    progressTtlS: config.PROGRESS_RETENTION_DAYS * 86_400,
    tenantsFile: config.MILLRACE_TENANTS,
  });
}
