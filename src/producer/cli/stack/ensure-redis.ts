import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { extname, join } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';
import type { Cli } from '../cli.ts';
import { devFolder } from '../../client/dev-state.ts';
import { findRedisServer } from './dev-redis.ts';

/** The folder whose `.cache/redis` holds an unpacked server: the checkout, or where an installed package keeps its data. */
export function redisHome({ root, cwd }: Pick<Cli, 'root' | 'cwd'>): string {
  return extname(import.meta.url) === '.ts' ? root : devFolder(cwd);
}

/**
 * Sees to a server that can be started: where there is none, Debian's packages are unpacked, and root may install one.
 * Throws `invalid_config` when that fails, after what else can be done has been printed.
 */
export async function ensureRedis(cli: Cli): Promise<void> {
  const home = redisHome(cli);
  if (findRedisServer(cli.env, home)) return;
  const setup = spawn(process.execPath, [join(cli.root, 'scripts/setup.mjs'), 'redis', home], {
    env: { ...cli.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: cli.interrupted,
  });
  for (const stream of [setup.stdout, setup.stderr]) stream.on('data', (chunk: Buffer) => cli.stderr.write(chunk));
  const [code] = (await once(setup, 'close')) as [number | null];
  if (code !== 0) throw new RunError('invalid_config', 'there is no Redis to start; see above');
}
