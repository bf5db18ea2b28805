import { defined } from '../../shared/base/collections.ts';
import type { ArgumentChecks } from '../../shared/base/argument-checks.ts';
import { problemsAt } from '../../shared/base/problems.ts';
import { z } from 'zod';
import type { RunKeySpace } from '../../shared/state/script.ts';
import type { ThreadKeySpace } from '../../shared/state/thread/key-space.ts';
import { factsOf } from '../../shared/contract/run-record.ts';
import type { RunStatus } from '../../shared/contract/run.ts';
import type { NewRun } from '../../shared/state/run/create-runs.ts';
import { systemClock } from '../../shared/base/clock.ts';
import { asRunError, RunError } from '../../shared/base/errors.ts';
import {
  connect,
  isClusterUrl,
  type ConnectionPurpose,
  whenReady,
  type RedisConnection,
} from '../../shared/state/connect.ts';
import { bullPrefix, keysFor, type Keys, type Reach } from '../../shared/state/keys.ts';
import { orLate } from '../../shared/base/deadline.ts';
import { isUnavailable, redisError } from '../../shared/state/errors.ts';
import { parseRedisUrl } from '../../shared/base/redis-address.ts';
import { type MediaStore, openMedia } from '../../shared/state/results/media-store.ts';
import { type ArchiveStore, openArchive } from '../../shared/state/archive/archive.ts';
import { LifecycleStream } from '../../shared/state/lifecycle-stream.ts';
import { maxQueues, runQueue } from '../../shared/contract/queues.ts';
import { loadTenants, type Tenants } from '../../shared/contract/tenants.ts';
import type { InputStores } from '../../shared/state/inputs/take-input.ts';
import { WriteProbe } from '../../shared/state/write-probe.ts';
import { RunAdmission } from './accept/admission.ts';
import type { Caller } from './accept/validate.ts';
import { AgentDirectory } from './agents.ts';
import { JobQueues } from './enqueue.ts';
import { EventHub } from './follow/event-hub.ts';
import { EventLog } from './follow/event-log.ts';
import { ModelGate } from './accept/model-gate.ts';
import { QueueDirectory } from '../../shared/state/fleet/fleet.ts';
import { OwnFiles } from './files/own-files.ts';
import { artifactStoreOf, type MillraceOptions, type RunFact } from './options.ts';

/** How long one command of a caller may take all in all while Redis is away or slow. */
const deadlineMs = 4_500;
/** The first connection may need TLS, Sentinel or a Cluster's map. */
const firstConnectMs = 2_000;
/** A reset connection is back within this; a Redis that is away is not. */
const reconnectMs = 500;

/** How long a subscriber or a waiting caller retries while Redis is away, and how often. */
const maxOutageMs = 60_000;
const retryMs = 250;

const pruneEvery = 100;
const maxPruneSample = 2_000;

const defaults = {
  queueMaxLength: 1_000_000,
  maxOpenRuns: 1_000_000,
  maxOpenRunsPerTenant: 250_000,
  maxThreadsPerTenant: 1_000_000,
  memoryMarkPercent: 90,
  queueTtlMs: 604_800_000,
  eventLogMax: 10_000,
  eventLogTtlS: 120,
  resultTtlS: 86_400,
  archiveTtlS: 604_800,
  archiveRedisMaxBytes: 32 * 1024 ** 2,
  progressTtlS: 30 * 86_400,
  filesMaxBytes: 10 * 1024 ** 3,
  idleMs: 5_000,
  durability: 'any',
} satisfies Partial<MillraceOptions>;

/** The options of a client that have a default. */
export type Settings = Required<Pick<MillraceOptions, keyof typeof defaults>>;

/** What all tenants' clients of one process share: two connections, the queues, the subscriptions. */
export class ClientCore {
  readonly keys: Keys;
  readonly cluster: boolean;
  readonly prefix: string;
  readonly settings: Settings;
  readonly queues: JobQueues;
  readonly hub: EventHub;
  readonly log: EventLog;
  readonly agents: AgentDirectory;
  readonly directory: QueueDirectory;
  readonly admission = new RunAdmission();
  readonly tenants: Tenants;
  readonly models: ModelGate;
  readonly writes: WriteProbe;
  readonly lifecycle: LifecycleStream;
  /** Where the texts of progress notes are; undefined: in Redis. */
  readonly artifactFolder: string | undefined;
  readonly files: OwnFiles;
  readonly media: MediaStore;
  /** What is kept of ended runs. */
  readonly archive: ArchiveStore;
  /** See the option. */
  readonly erasureKey: string | undefined;
  readonly onError: (error: Error) => void;
  readonly onRun: (fact: RunFact) => void;
  /** Opens a connection of its own; who asks for it closes it. */
  readonly connect: (purpose: ConnectionPurpose) => RedisConnection;
  readonly #redis: RedisConnection;
  /** As it is written in the URL, without a password. */
  readonly #address: string;
  readonly #namesAddress: boolean;
  #lastError: Error | undefined;
  #wasReady = false;
  #becomingReady: Promise<void> | undefined;
  #closed = false;
  #acceptedSincePrune = 0;
  #checks: ArgumentChecks | undefined;
  readonly #closing = new AbortController();
  readonly #inProgress = new Set<Promise<unknown>>();

  constructor(options: MillraceOptions & { readonly redis: string }) {
    const prefix = checkPrefix(options.prefix ?? 'mr');
    this.tenants = loadTenants(options.tenantsFile);
    this.prefix = prefix;
    this.keys = keysFor(prefix);
    const store = artifactStoreOf(options.artifactStore);
    this.artifactFolder = store.kind === 'folder' ? store.root : undefined;
    const reach: Reach = (work) => this.reach(work);
    this.cluster = isClusterUrl(options.redis);
    const given = Object.keys(defaults).map((name) => [name, options[name as keyof Settings]]);
    this.settings = { ...defaults, ...defined(Object.fromEntries(given) as Partial<Settings>) };
    this.onRun = (fact) => options.onRun?.(fact);
    this.#address = addressOf(options.redis);
    this.#namesAddress = options.namesAddress ?? true;
    this.onError = (error) => {
      this.#lastError = error;
      if (!this.#closed) options.onError?.(error);
    };
    this.connect = (purpose) => connect(options.redis, purpose, this.onError);
    this.#redis = this.connect('command');
    const reached = { keys: this.keys, reach };
    this.files = new OwnFiles(store, this.settings.filesMaxBytes, reached);
    const blobs = () => this.files.blobs();
    this.media = openMedia({ ...reached, clock: systemClock, blobs, ttlS: this.settings.resultTtlS });
    this.erasureKey = options.erasureKey;
    const { archiveTtlS, archiveRedisMaxBytes: maxRedisBytes } = this.settings;
    const kept = { kind: store.kind, blobs, ttlS: archiveTtlS, maxRedisBytes };
    this.archive = openArchive({ ...reached, clock: systemClock, ...kept });
    this.writes = new WriteProbe(this.#redis, this.keys);
    const { keys, cluster, onError } = this;
    this.lifecycle = new LifecycleStream({ redis: this.#redis, keys, cluster }, onError);
    this.queues = new JobQueues(this.#redis, bullPrefix(prefix, cluster), onError);
    this.hub = new EventHub(() => connect(options.redis, 'subscribe', onError), cluster, this.settings.idleMs);
    this.log = new EventLog(this.keys, (work) => this.reach(work));
    this.agents = new AgentDirectory(this.keys);
    this.models = new ModelGate(options, () => this.reach((redis) => this.agents.models(redis)));
    this.directory = new QueueDirectory(this.keys, options.queues && checkQueues(options.queues));
  }

  runKeySpace(redis: RedisConnection): RunKeySpace {
    const { eventLogMax, eventLogTtlS, resultTtlS, archiveTtlS } = this.settings;
    const { keys, cluster, lifecycle } = this;
    return { redis, keys, cluster, lifecycle, eventLogMax, eventLogTtlS, resultTtlS, archiveTtlS };
  }

  /** Where the files of inputs are. */
  get inputs(): InputStores {
    return { media: this.media, files: this.files.store };
  }

  threadKeySpace(redis: RedisConnection): ThreadKeySpace {
    return { redis, keys: this.keys, cluster: this.cluster, clock: systemClock };
  }

  /** Loaded when it is first needed: few producers ever check arguments. */
  async argumentChecks(): Promise<ArgumentChecks> {
    const { ArgumentChecks } = await import('../../shared/base/argument-checks.ts');
    return (this.#checks ??= new ArgumentChecks());
  }

  /** Aborts when the client closes. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /**
   * Runs work that talks to Redis. Whatever goes wrong with Redis comes out as `queue_unavailable`, and it does so
   * within 5 seconds. Work that is overtaken by the deadline may still take effect.
   */
  async reach<T>(work: (redis: RedisConnection) => Promise<T>): Promise<T> {
    if (this.#closed) throw new RunError('queue_unavailable', 'this client is closed');
    const attempt = this.#attempt(work);
    this.#inProgress.add(attempt);
    try {
      return await attempt;
    } finally {
      this.#inProgress.delete(attempt);
    }
  }

  /**
   * Tries a read that a long wait depends on again while Redis is away, for up to a minute. Throws `queue_unavailable`
   * after that, and the signal's reason when it aborts in between.
   */
  async patiently<T>(read: () => Promise<T>, stop: AbortSignal): Promise<T> {
    const until = performance.now() + maxOutageMs;
    for (;;) {
      try {
        return await read();
      } catch (error) {
        const away = error instanceof RunError && error.code === 'queue_unavailable';
        if (!away || performance.now() > until) throw error;
      }
      await systemClock.sleep(retryMs, stop);
    }
  }

  reportAccepted(run: NewRun, { status, attached }: { readonly status: RunStatus; readonly attached: boolean }): void {
    this.onRun({ kind: 'accepted', ...factsOf(run), status, attached, thread: run.request.thread });
  }

  /** Counts accepted runs. Answers how many index entries to look at now: none, or twice what came since the last time. */
  pruneSample(accepted: number): number {
    this.#acceptedSincePrune += accepted;
    if (this.#acceptedSincePrune < pruneEvery) return 0;
    const sample = Math.min(this.#acceptedSincePrune * 2, maxPruneSample);
    this.#acceptedSincePrune = 0;
    return sample;
  }

  /** Ends all subscriptions, waits for the calls in progress (they have a deadline), then closes the connections. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#closing.abort();
    this.hub.close();
    await Promise.allSettled(this.#inProgress);
    await this.files[Symbol.asyncDispose]();
    this.#redis.disconnect();
    await this.queues.close();
  }

  async #attempt<T>(work: (redis: RedisConnection) => Promise<T>): Promise<T> {
    try {
      const answer = this.#ready().then(() => work(this.#redis));
      return await orLate(deadlineMs, answer, () => {
        throw this.#away('Redis did not answer in time', this.#lastError);
      });
    } catch (error) {
      throw this.#redis.status === 'ready' ? failure(error) : this.#named(failure(error));
    }
  }

  /** Names the Redis that was tried: a wrong address is the commonest reason. */
  #named(error: RunError): RunError {
    return isUnavailable(error) ? this.#away('Redis cannot be reached', error) : error;
  }

  #away(what: string, cause: unknown): RunError {
    if (!this.#namesAddress) return new RunError('queue_unavailable', what, { cause });
    const why = this.#redis.status === 'ready' ? undefined : reasonOf(this.#lastError);
    const advice = this.#wasReady
      ? ''
      : `. Is it running there? \`npx millrace dev\` starts one; REDIS_URL, or the option \`redis\`, names another`;
    const message = `${what} at ${this.#address}${why === undefined ? '' : ` (${why})`}${advice}`;
    return new RunError('queue_unavailable', message, { cause });
  }

  /** All callers of a connection that is not ready wait together, for one and the same moment. */
  async #ready(): Promise<void> {
    if (this.#redis.status !== 'ready') {
      this.#becomingReady ??= whenReady(this.#redis, this.#wasReady ? reconnectMs : firstConnectMs).finally(() => {
        this.#becomingReady = undefined;
      });
      await this.#becomingReady;
    }
    this.#wasReady = true;
    this.#lastError = undefined;
  }
}

/** A client of one tenant. */
export interface TenantClient extends Caller {
  readonly core: ClientCore;
}

/** A connection that is ready. */
export interface Connected {
  readonly core: ClientCore;
  readonly redis: RedisConnection;
}

/** A client of one tenant while it talks to Redis. */
export type Reached = TenantClient & Connected;

/** {@link ClientCore.reach}, for work on behalf of a caller. */
export async function reach<T>(client: TenantClient, work: (at: Reached) => Promise<T>): Promise<T> {
  return await client.core.reach((redis) => work({ ...client, redis }));
}

/** The form of `MILLRACE_PREFIX`. */
function checkPrefix(prefix: string): string {
  if (/^[A-Za-z0-9_-]{1,32}$/.test(prefix)) return prefix;
  throw new RunError('invalid_config', 'a prefix is 1 to 32 letters, digits, _ or -');
}

/** The form of `MILLRACE_QUEUES`. */
function checkQueues(queues: readonly string[]): readonly string[] {
  const parsed = z.array(runQueue).min(1).max(maxQueues).safeParse(queues);
  if (parsed.success) return parsed.data;
  const problems = problemsAt(parsed.error, 'queues');
  throw new RunError('invalid_config', problems.join('; '), { details: problems });
}

/** The hosts of a URL, without its password. */
function addressOf(url: string): string {
  return parseRedisUrl(url)
    .nodes.map(({ host, port }) => `${host}:${port}`)
    .join(', ');
}

function reasonOf(error: Error | undefined): string | undefined {
  return error && 'code' in error && typeof error.code === 'string' ? error.code : error?.message;
}

/** A mistake in our own code must not look like a Redis that is away. */
function failure(error: unknown): RunError {
  const ours = [TypeError, RangeError, SyntaxError, z.ZodError].some((defect) => error instanceof defect);
  return ours ? asRunError(error) : redisError(error, 'a request of the producer');
}
