import type { Config } from '../../shared/contract/config.ts';
import type { MillraceOptions } from './options.ts';

/** How the processes reach Millrace that are configured by their environment. */
export function clientOptions(config: Config): MillraceOptions {
  return {
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
    durability: config.MILLRACE_DURABILITY,
    modelAllowlist: config.MODEL_ALLOWLIST,
    ...(config.MILLRACE_QUEUES && { queues: config.MILLRACE_QUEUES }),
    ...(config.MODEL_ROUTER_URL !== undefined && { modelRouterUrl: config.MODEL_ROUTER_URL }),
    ...(config.ARTIFACT_STORE.kind === 'folder' && { artifactFolder: config.ARTIFACT_STORE.root }),
    ...(config.MILLRACE_TENANTS !== undefined && { tenantsFile: config.MILLRACE_TENANTS }),
  };
}
