import { defined } from '../../../shared/base/collections.ts';
import { parseConfig, type Config } from '../../../shared/contract/config.ts';
import { artifactStoreOf, clientOptions } from '../../client/options.ts';
import { Millrace } from '../../client/millrace.ts';
import type { Cli } from '../cli.ts';
import { findDevState } from '../../client/dev-state.ts';

/**
 * The configuration of this command. Without `REDIS_URL`, which production requires, a development stack that runs for the
 * working directory is the one that is meant. Throws `invalid_config`.
 */
export function configOf(cli: Cli): Config {
  const config = parseConfig(cli.env);
  const dev = cli.env['REDIS_URL'] ? undefined : findDevState(cli.cwd);
  if (!dev) return config;
  const store = cli.env['ARTIFACT_STORE'] ? undefined : dev.artifactStore;
  return {
    ...config,
    REDIS_URL: dev.redisUrl,
    MILLRACE_PREFIX: cli.env['MILLRACE_PREFIX'] || dev.prefix,
    ARTIFACT_STORE: store === undefined ? config.ARTIFACT_STORE : artifactStoreOf(store),
  };
}

/** A client for this command, to be closed by it. Throws `invalid_config`. */
export function openClient(cli: Cli, onError?: (error: Error) => void): Millrace {
  return clientFor(configOf(cli), onError, cli.tenant);
}

export function clientFor(config: Config, onError?: (error: Error) => void, tenant?: string): Millrace {
  return new Millrace(defined({ ...clientOptions(config), tenant, onError }));
}
