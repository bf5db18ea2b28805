import { readFileSync } from 'node:fs';
import { RunError } from './errors.ts';

/** Where Redis is and how it is entered, as `REDIS_URL` says. */
export interface RedisAddress {
  readonly mode: 'single' | 'sentinel' | 'cluster';
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** Of the Sentinels, which have users of their own. */
  readonly sentinelUsername: string | undefined;
  readonly sentinelPassword: string | undefined;
  readonly masterName: string;
  readonly db: number;
  /** Absent: no TLS. Paths of PEM files. */
  readonly tls: { readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined;
}

const form = /^(rediss?)(?:\+(sentinel|cluster))?:\/\/(?:([^@/]*)@)?([^/?#]+)((?:\/[^?#]*)?)(?:\?([^#]*))?$/;
const files = ['ca', 'cert', 'key'] as const;
const ofSentinels = ['sentinelUsername', 'sentinelPassword'] as const;

/**
 * Reads `redis[s][+sentinel|+cluster]://[user:pass@]host[:port][,…][/master-name][/db][?…]`. Parameters: `ca`, `cert` and `key`
 * for TLS, `sentinelUsername` and `sentinelPassword`. Throws `invalid_config` with every problem; none holds a value.
 */
export function parseRedisUrl(url: string): RedisAddress {
  const [match, scheme, named = 'single', login = '', hosts = '', path = '', query = ''] = form.exec(url) ?? [];
  if (!match) throw refused(['is not a Redis URL']);
  const mode = named as RedisAddress['mode'];
  const problems: string[] = [];
  const given = new Map(new URLSearchParams(query));
  const known = [...(scheme === 'rediss' ? files : []), ...(mode === 'sentinel' ? ofSentinels : [])];
  for (const name of given.keys()) {
    if (known.some((one) => one === name)) continue;
    if (files.some((one) => one === name)) problems.push(`the parameter ${name} needs TLS: a URL of rediss`);
    else if (ofSentinels.some((one) => one === name)) problems.push(`the parameter ${name} needs a URL of +sentinel`);
    else problems.push(`there is no parameter ${name}; there are ${[...files, ...ofSentinels].join(', ')}`);
  }
  if (given.has('cert') !== given.has('key')) problems.push('cert and key need each other');
  const [username, password] = credentialsIn(login, problems);
  const parts = path.split('/').slice(1);
  const [masterName = 'mymaster', db] = mode === 'sentinel' ? parts : [undefined, parts[0]];
  if (db && !/^\d{1,5}$/.test(db)) problems.push('the database is no number');
  const nodes = hosts.split(',').map((entry) => nodeIn(entry, mode, problems));
  if (mode === 'single' && nodes.length > 1) problems.push('several hosts need a URL of +sentinel or +cluster');
  if (problems.length > 0) throw refused(problems);
  const tls = Object.fromEntries(files.flatMap((name) => (given.has(name) ? [[name, given.get(name)]] : [])));
  return {
    mode,
    nodes,
    username,
    password,
    sentinelUsername: given.get('sentinelUsername'),
    sentinelPassword: given.get('sentinelPassword'),
    masterName: masterName || 'mymaster',
    db: Number(db || 0),
    tls: scheme === 'rediss' ? tls : undefined,
  };
}

/** The files, read. Throws `invalid_config` for one that cannot be. */
export function readTls(tls: NonNullable<RedisAddress['tls']>): { ca?: string; cert?: string; key?: string } {
  return Object.fromEntries(
    Object.entries(tls).map(([name, path]) => {
      try {
        return [name, readFileSync(path, 'utf8')];
      } catch {
        throw refused([`the file of ${name} cannot be read: ${path}`]);
      }
    }),
  );
}

function credentialsIn(login: string, problems: string[]): readonly [string | undefined, string | undefined] {
  const colon = login.indexOf(':');
  const [user, pass] = colon < 0 ? [login, ''] : [login.slice(0, colon), login.slice(colon + 1)];
  try {
    return [decodeURIComponent(user) || undefined, decodeURIComponent(pass) || undefined];
  } catch {
    problems.push('the user or password holds a % that begins no escape: write it as %25');
    return [undefined, undefined];
  }
}

function nodeIn(entry: string, mode: RedisAddress['mode'], problems: string[]): RedisAddress['nodes'][number] {
  const [, host = '', port = mode === 'sentinel' ? '26379' : '6379'] =
    /^(\[[0-9a-fA-F:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(entry) ?? [];
  if (host === '') problems.push('a host must be host or host:port');
  return { host: host.replace(/^\[|\]$/g, ''), port: Number(port) };
}

function refused(problems: readonly string[]): RunError {
  const details = problems.map((problem) => `REDIS_URL: ${problem}`);
  return new RunError('invalid_config', details.join('\n'), { details });
}
