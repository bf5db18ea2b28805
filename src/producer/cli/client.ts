import { parseConfig, type Config } from '../../shared/config.ts';
import { Millrace } from '../millrace.ts';
import type { Cli } from './cli.ts';
import { findDevState } from './dev-state.ts';

/**
 * The configuration of this command. Without `REDIS_URL`, outside production, a development stack that runs for the
 * working directory is the one that is meant. Throws `invalid_config`.
 */
export function configOf(cli: Cli): Config {
  const config = parseConfig(cli.env);
  const dev = cli.env['REDIS_URL'] || config.NODE_ENV === 'production' ? undefined : findDevState(cli.cwd);
  if (!dev) return config;
  return { ...config, REDIS_URL: dev.redisUrl, MILLRACE_PREFIX: cli.env['MILLRACE_PREFIX'] || dev.prefix };
}

/** A client for this command, to be closed by it. Throws `invalid_config`. */
export function openClient(cli: Cli, onError?: (error: Error) => void): Millrace {
  return clientFor(configOf(cli), onError);
}

export function clientFor(config: Config, onError?: (error: Error) => void): Millrace {
  return new Millrace({
    ...(onError && { onError }),
    redis: config.REDIS_URL,
    prefix: config.MILLRACE_PREFIX,
    queueMaxLength: config.QUEUE_MAX_LENGTH,
    eventLogMax: config.EVENT_LOG_MAX,
    eventLogTtlS: config.EVENT_LOG_TTL_S,
    resultTtlS: config.RESULT_TTL_S,
    durability: config.MILLRACE_DURABILITY,
    modelAllowlist: config.MODEL_ALLOWLIST,
    ...(config.MODEL_ROUTER_URL !== undefined && { modelRouterUrl: config.MODEL_ROUTER_URL }),
    ...(config.ARTIFACT_STORE.kind === 'folder' && { artifactFolder: config.ARTIFACT_STORE.root }),
    ...(config.MILLRACE_TENANTS !== undefined && { tenantsFile: config.MILLRACE_TENANTS }),
  });
}
