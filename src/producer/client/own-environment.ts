import { parseConfig, parseRemoteConfig, type RemoteSettings } from '../../shared/contract/config.ts';
import { findDevState } from './dev-state.ts';
import type { MillraceOptions } from './options.ts';

/** What a program that gives no `redis` has set about it. Its other variables may mean anything. */
const settings = [
  'NODE_ENV',
  'REDIS_URL',
  'REDIS_SENTINEL_USERNAME',
  'REDIS_SENTINEL_PASSWORD',
  'REDIS_TLS_CA',
  'REDIS_TLS_CERT',
  'REDIS_TLS_KEY',
  'MILLRACE_PREFIX',
  'ARTIFACT_STORE',
] as const;

/** The producer that `MILLRACE_URL` names, or undefined. Throws `invalid_config`. */
export function remoteFromSurroundings(): RemoteSettings | undefined {
  return parseRemoteConfig(process.env);
}

/**
 * Where Redis is for a client that was given no address, its prefix, and the store of its files, unless those were given: what the
 * environment sets; without `REDIS_URL`, which production requires, the development stack of the working directory or of a folder
 * above it; and `redis://127.0.0.1:6379` when none runs. Throws `invalid_config`.
 */
export function fromSurroundings(
  given: Pick<MillraceOptions, 'prefix' | 'artifactStore'>,
): Required<Pick<MillraceOptions, 'redis' | 'prefix' | 'artifactStore'>> {
  const set = Object.fromEntries(settings.map((name) => [name, process.env[name]]));
  const config = parseConfig(set);
  const dev = set['REDIS_URL'] ? undefined : findDevState(process.cwd());
  const prefix = given.prefix ?? (set['MILLRACE_PREFIX'] || undefined);
  const store = given.artifactStore ?? (set['ARTIFACT_STORE'] ? config.ARTIFACT_STORE : undefined);
  return {
    redis: dev?.redisUrl ?? config.REDIS_URL,
    prefix: prefix ?? dev?.prefix ?? config.MILLRACE_PREFIX,
    artifactStore: store ?? dev?.artifactStore ?? config.ARTIFACT_STORE,
  };
}
