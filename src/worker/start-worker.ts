import { systemClock } from '../shared/base/clock.ts';
import { parseConfig, type Config } from '../shared/contract/config.ts';
import { RunError } from '../shared/base/errors.ts';
import { createLog, scrubbedLog, silentLog, type Log } from '../shared/base/log.ts';
import type { Redactor } from '../shared/base/redact.ts';
import { loadTenants } from '../shared/contract/tenants.ts';
import { createBoundary } from './agents/credentials.ts';
import { buildWorker, type RunningWorker } from './build.ts';
import type { Middleware } from './llm/backends/middleware.ts';
import type { LlmProvider } from './llm/provider.ts';
import type { ModelResolver } from './llm/backends/providers.ts';
import type { Agent } from './agents/define-agent.ts';
import type { AnswerMerge, MergeJudge } from './agents/define-judge.ts';
import { loadedAll, type ToolOffer } from './agents/loaded-agent.ts';
import { loadAgents, namedFunctions, type NamedFunctions, type LoadTask } from './agents/load-agents.ts';
import type { Embedder } from './jobs/embeddings.ts';
import type { TaskAdapter } from './agents/adapter.ts';
import { createToolkit } from './agents/toolkit.ts';
import type { CapabilityResolver } from './tools/capabilities.ts';

export interface StartWorkerOptions {
  /** As `REDIS_URL`. */
  readonly redis: string;
  /** Agents to serve: definitions, or the path of a folder. */
  readonly agents: readonly Agent[] | string;
  /** Key prefix, default `mr`. */
  readonly prefix?: string;
  /** Runs at once, default 50. */
  readonly concurrency?: number;
  /** Queues to serve, default `['runs']`. */
  readonly queues?: readonly string[];
  /** One provider for every model, instead of the ones that the environment configures. */
  readonly provider?: LlmProvider;
  /** Stand between the runner and each provider, the first one outermost. See `withMiddleware`. */
  readonly middleware?: readonly Middleware[];
  /** Decides who serves a model, before names and settings do; `undefined` leaves it to them. */
  readonly resolveModel?: ModelResolver;
  /** Renews the credentials of a provider that refused them; `true` grants one more attempt. At most once per run. */
  readonly onAuthError?: (provider: string, signal: AbortSignal) => Promise<boolean>;
  /** The tasks that runs may work on, by id. Default: those of the folder of agents. */
  readonly loadTask?: LoadTask;
  /** What agents may name in `capabilities`, each with what it brings. */
  readonly capabilities?: Readonly<Record<string, CapabilityResolver>>;
  /** What fan-outs may name to merge their answers, beside those of the folder. */
  readonly judges?: readonly (MergeJudge | AnswerMerge)[];
  /** What tasks may name as their adapter, beside those of the folder. */
  readonly adapters?: readonly TaskAdapter[];
  /** Makes and keeps vectors of the messages of threads. Default: none are made. */
  readonly embedder?: Embedder;
  /** Further settings by the names of the environment variables. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: silent. */
  readonly log?: Log;
}

/**
 * Starts a worker inside this process and resolves when it takes jobs. Throws `invalid_config` or
 * `agent_manifest_invalid` listing every problem, `queue_unavailable` when Redis does not answer. The health port is a
 * free one unless `env.WORKER_PORT` says otherwise. Call `stop()` before the process ends, or the runs in progress are
 * only continued after their leases have run out.
 */
export async function startWorker(options: StartWorkerOptions): Promise<RunningWorker> {
  const { env = {}, provider, middleware, resolveModel } = options;
  const config = parseConfig({
    WORKER_PORT: '0',
    ...env,
    REDIS_URL: options.redis,
    MILLRACE_PREFIX: options.prefix ? options.prefix : env['MILLRACE_PREFIX'],
    WORKER_CONCURRENCY: options.concurrency ? String(options.concurrency) : env['WORKER_CONCURRENCY'],
    WORKER_QUEUES: options.queues?.join(',') ?? env['WORKER_QUEUES'],
  });
  const { providers, secrets, redactor } = createBoundary({ config, env, provider, middleware, resolveModel });
  const log = options.log ? scrubbedLog(options.log, redactor) : ownLog(config, env, redactor);
  // Inside a caller's process there is no entry file to run again, so quarantine needs a worker of its own.
  const onUnservedQuarantine = () => log.warn('runs wait in quarantine: start a worker with the queue `quarantine`');
  const { onAuthError, embedder, capabilities } = options;
  const toolkit = createToolkit({ config, secrets, redactor, log, clock: systemClock, capabilities });
  const { agents, tasks, ...beside } =
    typeof options.agents === 'string'
      ? await folder(options.agents, toolkit.offer)
      : { agents: loadedAll(options.agents, toolkit.offer), tasks: new Map<string, never>() };
  const functions = functionsOf(options, beside);
  return await buildWorker({
    config,
    log,
    redactor,
    agents,
    loadTask: options.loadTask ?? ((id) => tasks.get(id)),
    functions,
    providers,
    tenants: loadTenants(config.MILLRACE_TENANTS),
    toolkit,
    onUnservedQuarantine,
    onAuthError,
    embedder,
  });
}

function ownLog({ LOG_LEVEL }: Config, env: NonNullable<StartWorkerOptions['env']>, redactor: Redactor): Log {
  return env['LOG_LEVEL'] ? createLog('worker', LOG_LEVEL, redactor) : silentLog;
}

async function folder(path: string, offer: ToolOffer) {
  const loaded = await loadAgents(path, offer);
  const { problems } = loaded;
  if (problems.length > 0) throw new RunError('agent_manifest_invalid', problems.join('\n'), { details: problems });
  return loaded;
}

function functionsOf(
  { judges = [], adapters = [] }: Pick<StartWorkerOptions, 'judges' | 'adapters'>,
  beside: Partial<NamedFunctions>,
): NamedFunctions {
  const merging = [...(beside.judges?.values() ?? []), ...(beside.merges?.values() ?? []), ...judges];
  return namedFunctions(merging, [...(beside.adapters?.values() ?? []), ...adapters]);
}
