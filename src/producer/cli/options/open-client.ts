import { defined } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { parseConfig, parseRemoteConfig, type Config, type RemoteSettings } from '../../../shared/contract/config.ts';
import { artifactStoreOf, clientOptions } from '../../client/options.ts';
import { Millrace } from '../../client/millrace.ts';
import { addressOf, isInTheClear } from '../../client/remote/options.ts';
import { thisPerson, type Cli } from '../cli.ts';
import { findDevState } from '../../client/dev-state.ts';
import { yellow } from '../show/paint.ts';

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

/**
 * A client for this command, to be closed by it: over HTTP where `MILLRACE_URL` is set, else over Redis. Throws `invalid_config`,
 * and `validation` for `--tenant` beside a URL.
 */
export function openClient(cli: Cli, onError?: (error: Error) => void): Millrace {
  const remote = remoteOf(cli);
  if (!remote) return clientFor(configOf(cli), onError, cli.tenant);
  if (cli.tenant !== undefined)
    throw new RunError(
      'validation',
      '--tenant: with MILLRACE_URL the API key names the tenant; use the key of the other',
    );
  for (const note of notesOn(cli, remote)) cli.stderr.write(`${yellow(cli.stderr, note)}\n`);
  return remoteClient(remote, onError);
}

export function clientFor(config: Config, onError?: (error: Error) => void, tenant?: string): Millrace {
  return new Millrace(defined({ ...clientOptions(config), tenant, onError }));
}

/** Throws `invalid_config` by the names of the settings. */
export function remoteClient(remote: RemoteSettings, onError?: (error: Error) => void): Millrace {
  return new Millrace(defined({ ...remote, onError }));
}

/** The producer that the environment names, or undefined. Throws `invalid_config`. */
export function remoteOf({ env }: Pick<Cli, 'env'>): RemoteSettings | undefined {
  const remote = parseRemoteConfig(env);
  if (!remote) return undefined;
  try {
    addressOf(remote);
  } catch (error) {
    const message = (error as Error).message.replace(/^url:/, 'MILLRACE_URL:').replace(/^apiKey:/, 'MILLRACE_API_KEY:');
    throw new RunError('invalid_config', message.replace('apiKey (MILLRACE_API_KEY)', 'MILLRACE_API_KEY'), {
      cause: error,
    });
  }
  return remote;
}

/** What a user may not be aware of. */
function notesOn({ env }: Cli, remote: RemoteSettings): readonly string[] {
  const { base } = addressOf(remote);
  return [
    ...(env['REDIS_URL'] ? [`Using MILLRACE_URL (${base}). REDIS_URL is set, too, and is not used.`] : []),
    ...(isInTheClear(remote) ? [`MILLRACE_API_KEY crosses the network in the clear: ${base} has no TLS.`] : []),
  ];
}

/**
 * Who decides: the name that was given, or the user of this machine. Where an API key says it, no one; a name beside it is an
 * error. Throws `validation`.
 */
export function decider(cli: Cli, given: string | undefined): string | undefined {
  if (remoteOf(cli)?.apiKey === undefined) return given ?? thisPerson();
  if (given === undefined) return undefined;
  throw new RunError('validation', '--by: with MILLRACE_API_KEY who decides is the key; leave --by out');
}
