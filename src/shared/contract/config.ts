import { defined } from '../base/collections.ts';
import { problemsOf } from '../base/problems.ts';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { z } from 'zod';
import { parseArtifactStore } from './artifacts.ts';
import { flowMode } from './flow.ts';
import { asRunError, RunError } from '../base/errors.ts';
import { Redactor } from '../base/redact.ts';
import { parseRedisUrl, readTls } from '../base/redis-address.ts';
import { maxQueues, runQueue, servedQueue } from './queues.ts';

const portNumber = z.coerce.number().int().min(0).max(65_535);
const positive = z.coerce.number().int().min(1);
const nonNegative = z.coerce.number().int().min(0);

const setText = z.string().min(1).optional();
const webUrl = z.url({ protocol: /^https?$/ }).optional();
const commaList = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  );
const lowerCaseList = commaList.transform((names) => names.map((name) => name.toLowerCase()));

/** What only looks like a host (a URL, a pattern, a range) would never match. */
const hostList = lowerCaseList.pipe(
  z.array(
    z
      .string()
      .regex(
        /^(\[[0-9a-f:.]+\]|[0-9a-f]*:[0-9a-f:.]*:[0-9a-f:.]*|[a-z0-9_-]+(\.[a-z0-9_-]+)*)(:\d{1,5})?$/,
        'must be hosts like api.example.com or api.example.com:8443: no URLs, patterns or ranges',
      ),
  ),
);

/**
 * Every environment variable with its default. This literal is the whole configuration: one schema, parsed once at the
 * entry point, every problem reported at once. The description of each field is the reference page.
 */
export const configSchema = z.object({
  NODE_ENV: z
    .string()
    .default('development')
    .describe('`production` requires `REDIS_URL` and a model provider, and refuses the scripted one.'),
  REDIS_URL: z
    .string()
    .regex(
      /^(rediss?|redis\+sentinel|rediss\+sentinel|redis\+cluster|rediss\+cluster):\/\//,
      'must be a redis://, rediss://, redis+sentinel:// or redis+cluster:// URL',
    )
    .default('redis://127.0.0.1:6379')
    .describe(
      'Redis or Valkey. Also `rediss://`, `redis+sentinel://h1:26379,h2:26379/master-name/0` and `redis+cluster://h1:7000,h2:7000`.',
    ),
  REDIS_SENTINEL_USERNAME: setText.describe('User at the Sentinels, where they ask for one.'),
  REDIS_SENTINEL_PASSWORD: setText.describe('Password of the Sentinels. That of Redis itself stands in `REDIS_URL`.'),
  REDIS_TLS_CA: setText.describe(
    'PEM file of the authorities that signed the certificates of Redis and its Sentinels. For `rediss` URLs.',
  ),
  REDIS_TLS_CERT: setText.describe('PEM file of the client certificate. With `REDIS_TLS_KEY`.'),
  REDIS_TLS_KEY: setText.describe('PEM file of the key of the client certificate.'),
  MILLRACE_URL: webUrl.describe(
    'URL of a producer. Commands and `new Millrace()` then speak HTTP and need no Redis; it counts before `REDIS_URL`. Processes (`producer`, `worker`, `dev`) do not read it.',
  ),
  MILLRACE_API_KEY: setText.describe(
    'Key that goes with `MILLRACE_URL`, one of the producer’s `MILLRACE_API_KEYS`. It names the tenant.',
  ),
  MILLRACE_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,32}$/, 'must be 1 to 32 letters, digits, _ or -')
    .default('mr')
    .describe('Key and channel prefix. Two prefixes never see each other.'),
  MILLRACE_AGENTS: z
    .string()
    .default('./agents')
    .describe('Folder of agent definitions: modules that default-export `defineAgent(…)`, and YAML.'),
  HOST: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe('Address that a producer, and the health port of a worker, listen on.'),
  PORT: portNumber.default(8080).describe('Port of the producer. 0 picks a free one.'),
  WORKER_PORT: portNumber
    .default(9464)
    .describe('Port of the worker for /healthz, /readyz and /metrics. 0 picks a free one.'),
  WORKER_CONCURRENCY: positive.max(10_000).default(50).describe('Runs at once in one worker process.'),
  WORKER_QUEUES: z
    .string()
    .default('runs')
    .transform((text) => text.split(',').map((name) => name.trim()))
    .pipe(z.array(servedQueue).min(1).max(maxQueues))
    .describe(
      'Comma-separated run queues that this worker serves. `quarantine` holds runs that keep losing their workers.',
    ),
  MILLRACE_QUEUES: z
    .string()
    .optional()
    .transform((text) => text?.split(',').map((name) => name.trim()))
    .pipe(z.array(runQueue).min(1).max(maxQueues).optional())
    .describe(
      'Comma-separated run queues that a request may name; others are refused with `unknown_queue`. Unset: `runs` and every queue that a worker announced in the last seven days.',
    ),
  SHUTDOWN_GRACE_MS: nonNegative
    .default(25_000)
    .describe('Milliseconds from SIGTERM until what still runs is handed over.'),
  OPENAI_API_KEY: setText.describe('Key of the default provider.'),
  OPENAI_BASE_URL: webUrl.describe('Base URL of any OpenAI-compatible server.'),
  MILLRACE_PROVIDERS: setText.describe('YAML file with more providers.'),
  MILLRACE_SCRIPT: setText.describe(
    'YAML file for the scripted provider, or `builtin`. Used instead of a real provider; refused in production.',
  ),
  MILLRACE_TENANTS: setText.describe(
    'YAML file with the budget of each tenant, its weight where tenants share a provider limit, and how long what its runs did can be read.',
  ),
  MILLRACE_POLICIES: setText.describe(
    'YAML file with rules for tool calls and model calls, and the commands and domains that tools may use.',
  ),
  DATA_FLOW_MODE: flowMode
    .default('off')
    .describe(
      'The least that the `dataFlowPolicy` of every agent does on this worker: `off`, `shadow`, `confirm` or `enforce`. An agent may be stricter, never laxer; one without a policy gets this mode with its defaults.',
    ),
  MILLRACE_SECRETS: setText.describe(
    'Folder with the secrets of tools, one file each, as Kubernetes mounts them. More come from variables `MILLRACE_SECRET_<NAME>`.',
  ),
  MODEL_ALLOWLIST: commaList.describe(
    'Comma-separated models that a request may name; `*` allows any. Others are refused with `model_not_allowed`. Without this and `MODEL_ROUTER_URL`: the models that agents use. A worker counts these by name, others as `other`.',
  ),
  MODEL_ROUTER_URL: webUrl.describe(
    'Server whose `/v1/models` lists the models that a request may name beside `MODEL_ALLOWLIST`.',
  ),
  LLM_ALLOWED_HOSTS: lowerCaseList.describe(
    'Comma-separated hosts (`host` or `host:port`) that provider base URLs may name although they are private, link-local or without TLS.',
  ),
  EGRESS_ALLOWED_HOSTS: hostList.describe(
    'Comma-separated hosts (`host` or `host:port`) that tools and MCP servers over HTTP may name although they are private or without TLS.',
  ),
  INPUT_URLS: z
    .enum(['fetch', 'pass', 'refuse'])
    .default('fetch')
    .describe(
      'What becomes of URLs of images and files in inputs. `fetch`: a worker fetches each once, never from inside (`EGRESS_ALLOWED_HOSTS` names exceptions). `pass`: the model provider gets the URL and fetches it itself. `refuse`: such a request is refused. The same on all workers and producers.',
    ),
  EGRESS_DOMAINS: hostList
    .transform((hosts) => (hosts.length > 0 ? hosts : undefined))
    .describe('Comma-separated hosts (`host` or `host:port`, exact names): the only ones that `http_request` may ask.'),
  MILLRACE_FILES: setText.describe('Folder that `read_file` may read. Unset: no agent can use it.'),
  PROVIDER_WAIT_MS: nonNegative
    .default(5_000)
    .describe(
      'Longest wait of a running run for a provider limit or for money; then it waits without holding a worker.',
    ),
  ARTIFACT_STORE: z
    .string()
    .default('redis')
    .transform((text, context) => {
      const store = parseArtifactStore(text);
      if (typeof store !== 'string') return store;
      context.addIssue({ code: 'custom', message: store });
      return z.NEVER;
    })
    .describe(
      'Where files, and results that are too large for a model, are kept: `redis` (files of at most 16 MiB), `file:/path` (a folder that all workers and producers share), or `s3://bucket/prefix?endpoint=…&region=…` (needs the package `@aws-sdk/client-s3`). The same on all workers and producers.',
    ),
  ARTIFACT_MAX_BYTES: positive
    .max(1024 ** 3)
    .default(16 * 1024 ** 2)
    .describe('Largest result that is kept, in bytes. A larger one is cut.'),
  ARTIFACT_RUN_MAX_BYTES: positive
    .default(64 * 1024 ** 2)
    .describe('What the kept results of one run may take together, in bytes. At least `ARTIFACT_MAX_BYTES`.'),
  FILES_MAX_BYTES_PER_TENANT: positive
    .default(10 * 1024 ** 3)
    .describe(
      'What the uploaded files of one tenant may take together, in bytes. Where `ARTIFACT_STORE` is `redis`, never more than 256 MiB.',
    ),
  PROGRESS_RETENTION_DAYS: positive
    .max(3_650)
    .default(30)
    .describe('Days that the progress notes of a run are kept after its last one.'),
  COSTS_RETENTION_DAYS: positive
    .max(3_650)
    .default(400)
    .describe('Days that the cost counters of `GET /v1/costs` are kept.'),
  MILLRACE_PRICES: setText.describe('YAML file that overrides or adds model prices.'),
  MILLRACE_API_KEYS: setText.describe(
    'File, or list, of `sha256-of-key:tenant:scopes`. Scopes are `read`, `write`, `approve` and `admin`, joined by `+`, or `*` for all; without any a key has `read+write`. Unset: no keys, and the producer binds only to loopback.',
  ),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('Least level that is logged.'),
  STREAM_FLUSH_MS: nonNegative
    .max(10_000)
    .default(25)
    .describe(
      'Text deltas of a run within this window become one event; the first of a step goes at once. 0: one event per provider delta.',
    ),
  EVENT_LOG_MAX: positive.default(10_000).describe('Events kept per run for replay.'),
  EVENT_LOG_TTL_S: positive.default(120).describe('Seconds that the events of a run are kept after its end.'),
  RESULT_TTL_S: positive
    .default(86_400)
    .describe('Seconds that finished run records are kept. With an execution id at least 24 hours.'),
  ARCHIVE_TTL_S: nonNegative
    .max(366 * 86_400)
    .default(604_800)
    .describe(
      'Seconds after its end that what a run did can be read: its steps, calls and events without text deltas, compressed, where `ARTIFACT_STORE` says. 0: nothing is archived. The same on all workers and producers.',
    ),
  ARCHIVE_REDIS_MAX_BYTES: positive
    .default(32 * 1024 ** 2)
    .describe(
      'What archived runs may take together where `ARTIFACT_STORE` is `redis`, in bytes: the oldest go first. A folder and a bucket have no bound but `ARCHIVE_TTL_S`.',
    ),
  ERASURE_KEY: z
    .string()
    .regex(/^[A-Za-z0-9+/]{43}=$/, 'must be 32 bytes in base64: openssl rand -base64 32')
    .optional()
    .describe(
      'Of producers: the seed of the Ed25519 key that receipts of erasures are signed with, 32 bytes in base64 (`openssl rand -base64 32`). Unset: one is made once and kept in Redis.',
    ),
  QUEUE_MAX_LENGTH: positive
    .default(1_000_000)
    .describe('Waiting jobs at which the producer answers 429 `queue_full`.'),
  MAX_OPEN_RUNS: positive
    .default(1_000_000)
    .describe(
      'Runs that have not ended at which the producer answers 503 `queue_full`. Runs that work for others are never refused.',
    ),
  MAX_OPEN_RUNS_PER_TENANT: positive
    .default(250_000)
    .describe('The same for the runs of one tenant, with 429 `queue_full`.'),
  MAX_THREADS_PER_TENANT: positive
    .default(1_000_000)
    .describe(
      'Threads of one tenant at which a run that would begin another is refused with 429 `queue_full`. Nothing of a thread expires: its tenant deletes it.',
    ),
  REDIS_MEMORY_MARK_PERCENT: positive
    .max(100)
    .default(90)
    .describe(
      'Percent of `maxmemory` at which the producer answers 503 `queue_full`, so that runs that have begun can end. Without `maxmemory` never.',
    ),
  QUEUE_TTL_MS: nonNegative
    .max(365 * 86_400_000)
    .default(604_800_000)
    .describe(
      'The `queueTtlMs` of requests that have none: a run that no worker has begun for so long fails with `queue_expired`. 0: it waits as long as it takes.',
    ),
  BATCHES_AT_ONCE: positive
    .max(100)
    .default(4)
    .describe('Batches that one producer advances at once. Others wait for their turn.'),
  LOCK_DURATION_MS: positive
    .min(1_000)
    .default(15_000)
    .describe(
      'Lease of a job. A dead worker, or a producer that advances batches, is noticed after this plus STALLED_INTERVAL_MS. The same on all of them.',
    ),
  STALLED_INTERVAL_MS: positive
    .min(250)
    .default(5_000)
    .describe('How often lost leases are looked for. The same on all workers and producers.'),
  LLM_START_TIMEOUT_MS: positive.default(120_000).describe('Longest wait for the first byte of a model answer.'),
  LLM_IDLE_TIMEOUT_MS: positive.default(45_000).describe('Longest silence within a model answer.'),
  CODE_MODE_PROCESSES: positive
    .max(64)
    .default(2)
    .describe(
      'Processes for scripts of agents in code mode, per worker. One runs one script at a time and needs up to 250 MB; they are started when a script needs them.',
    ),
  MAX_STEPS_CAP: positive.default(1_000).describe('Highest maxSteps that a request or agent may set on this worker.'),
  JOURNAL_MAX_BYTES: positive
    .default(67_108_864)
    .describe(
      'Most that the journal of one run may take, in bytes: a run that passes it fails with `turn_limit`, with what it has written so far.',
    ),
  LOOP_GUARD: z
    .enum(['on', 'off'])
    .default('off')
    .describe(
      'Whether agents that say nothing about `loopGuard` have one, with its defaults. An agent with `loopGuard: false` has none.',
    ),
  MILLRACE_DURABILITY: z
    .enum(['process', 'host', 'replica', 'any'])
    .default('any')
    .describe(
      'Durability that Redis must offer a producer, checked at start: `process` AOF and noeviction, `host` also appendfsync always, `replica` also an acknowledging replica. `any` warns only.',
    ),
});

export type Config = Readonly<z.output<typeof configSchema>>;

/** Reads the environment. Throws `invalid_config` whose details list every problem; entry points exit 2 on it. */
export function parseConfig(env: Record<string, string | undefined>): Config {
  const set = Object.fromEntries(
    Object.entries(env).filter(([name, value]) => name in configSchema.shape && value !== ''),
  );
  const parsed = configSchema.safeParse(set);
  const problems = problemsOf(parsed.error, 'the environment');
  problems.push(...conflicts(set), ...(parsed.success ? redisProblems(parsed.data) : []));
  if (!parsed.success || problems.length > 0) {
    throw new RunError('invalid_config', `invalid configuration:\n  ${problems.join('\n  ')}`, { details: problems });
  }
  return Object.freeze({ ...parsed.data, REDIS_URL: redisUrlOf(parsed.data) });
}

/** Where a client finds a producer, and its key. */
export interface RemoteSettings {
  readonly url: string;
  readonly apiKey?: string;
}

/** What the environment says about reaching Millrace over HTTP, or undefined. Throws `invalid_config`. */
export function parseRemoteConfig(env: Record<string, string | undefined>): RemoteSettings | undefined {
  const { MILLRACE_URL: url, MILLRACE_API_KEY: apiKey } = parseConfig({
    MILLRACE_URL: env['MILLRACE_URL'],
    MILLRACE_API_KEY: env['MILLRACE_API_KEY'],
  });
  return url === undefined ? undefined : defined({ url, apiKey });
}

const redisSettings = {
  REDIS_SENTINEL_USERNAME: 'sentinelUsername',
  REDIS_SENTINEL_PASSWORD: 'sentinelPassword',
  REDIS_TLS_CA: 'ca',
  REDIS_TLS_CERT: 'cert',
  REDIS_TLS_KEY: 'key',
} as const;

/** The URL with the settings beside it as its parameters: so one text says all that a connection needs. */
function redisUrlOf(config: Pick<Config, 'REDIS_URL' | keyof typeof redisSettings>): string {
  const added = Object.entries(redisSettings).flatMap(([setting, parameter]) => {
    const value = config[setting as keyof typeof redisSettings];
    return value === undefined ? [] : [`${parameter}=${encodeURIComponent(value)}`];
  });
  if (added.length === 0) return config.REDIS_URL;
  return `${config.REDIS_URL}${config.REDIS_URL.includes('?') ? '&' : '?'}${added.join('&')}`;
}

/** What is wrong with how Redis is reached, by the names of the settings. */
function redisProblems(config: Pick<Config, 'REDIS_URL' | keyof typeof redisSettings>): readonly string[] {
  try {
    const { tls } = parseRedisUrl(redisUrlOf(config));
    if (tls) readTls(tls);
    return [];
  } catch (error) {
    const { message } = asRunError(error);
    const names = Object.entries(redisSettings);
    return message
      .split('\n')
      .map((line) =>
        names.reduce((text, [setting, name]) => text.replace(`the parameter ${name} `, `${setting} `), line),
      );
  }
}

/** Rules between variables, which a field's own schema cannot see. */
function conflicts(env: Record<string, string | undefined>): string[] {
  const problems: string[] = [];
  const { ARTIFACT_MAX_BYTES, ARTIFACT_RUN_MAX_BYTES } = configSchema.shape;
  const ofBody = ARTIFACT_MAX_BYTES.safeParse(env['ARTIFACT_MAX_BYTES']).data;
  const ofRun = ARTIFACT_RUN_MAX_BYTES.safeParse(env['ARTIFACT_RUN_MAX_BYTES']).data;
  if (ofBody !== undefined && ofRun !== undefined && ofRun < ofBody)
    problems.push('ARTIFACT_RUN_MAX_BYTES: must be at least ARTIFACT_MAX_BYTES');
  if (env['NODE_ENV'] === 'production') {
    if (!env['REDIS_URL']) problems.push('REDIS_URL: required when NODE_ENV is production');
    if (env['MILLRACE_SCRIPT'])
      problems.push('MILLRACE_SCRIPT: the scripted provider is refused when NODE_ENV is production');
  }
  for (const name of ['MILLRACE_PROVIDERS', 'MILLRACE_PRICES', 'MILLRACE_TENANTS', 'MILLRACE_POLICIES'] as const) {
    const path = env[name];
    if (path && !existsSync(path)) problems.push(`${name}: ${missing('file', path)}`);
  }
  for (const name of ['MILLRACE_SECRETS', 'MILLRACE_FILES'] as const) {
    const path = env[name];
    if (path && !statSync(path, { throwIfNoEntry: false })?.isDirectory())
      problems.push(`${name}: ${missing('folder', path)}`);
  }
  const script = env['MILLRACE_SCRIPT'];
  if (script && script !== 'builtin' && !existsSync(script))
    problems.push(`MILLRACE_SCRIPT: ${missing('file', script)}`);
  if (env['MILLRACE_API_KEYS']) problems.push(...parseApiKeys(env['MILLRACE_API_KEYS']).problems);
  return problems;
}

/** Names the path, unless it is none: who writes the content in its place writes keys. */
function missing(what: 'file' | 'folder', path: string): string {
  const isPath = /^[^\p{Cc}{}[\]"=]{1,512}$/u.test(path) && new Redactor().text(path) === path;
  return isPath ? `there is no ${what} ${path}` : `must be the path of a ${what}, not what is in it`;
}

export const scope = z.enum(['read', 'write', 'approve', 'admin']);
export type Scope = z.infer<typeof scope>;

/** An API key as configured: only its digest, never the key. */
export interface ApiKey {
  readonly sha256: string;
  readonly tenant: string;
  readonly scopes: ReadonlySet<Scope>;
}

/**
 * Reads `MILLRACE_API_KEYS`: a file's path or the list itself. Entries `sha256:tenant[:scopes]` stand one a line or
 * separated by commas; scopes are separated by `+`, `*` are all, none are `read+write`; `#` starts a comment in a file.
 */
export function parseApiKeys(source: string): { keys: ApiKey[]; problems: string[] } {
  const isFile = existsSync(source) && statSync(source).isFile();
  const text = isFile ? readFileSync(source, 'utf8') : source;
  const keys: ApiKey[] = [];
  const problems: string[] = [];
  const entries = text.split(/[\n,]/).map((entry) => entry.replace(/#.*/, '').trim());
  for (const [index, entry] of entries.entries()) {
    if (!entry) continue;
    const [digest = '', tenant = '', scopes = ''] = entry.split(':');
    const names = scopes === '*' ? scope.options : (scopes || 'read+write').split('+');
    const where = `MILLRACE_API_KEYS: entry ${index + 1}`;
    if (!/^[0-9a-f]{64}$/i.test(digest)) problems.push(`${where} does not start with the SHA-256 of a key in hex`);
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(tenant))
      problems.push(`${where} has no valid tenant (1 to 64 of A-Z a-z 0-9 . _ -)`);
    const unknown = names.filter((name) => !scope.safeParse(name).success);
    if (unknown.length > 0) problems.push(`${where} has unknown scopes; there are ${scope.options.join(', ')} and *`);
    keys.push({ sha256: digest.toLowerCase(), tenant, scopes: new Set(names as Scope[]) });
  }
  if (keys.length === 0) problems.push('MILLRACE_API_KEYS: there is no key in it');
  return { keys, problems };
}
