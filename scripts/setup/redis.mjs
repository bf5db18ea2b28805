import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { delimiter, join, relative } from 'node:path';
import { lastLine, run, unpackDebianPackages } from './debian.mjs';

/** On Debian the server is inside redis-tools, as `redis-check-rdb`; the rest are the libraries it needs. */
const debianPackages = ['redis-tools', 'libatomic1', 'libjemalloc2', 'liblzf1'];

/**
 * Sees to it that `src/producer/cli/stack/dev-redis.ts` finds a server, in the order of that file; throws with the three ways out
 * when there is none and none can be had.
 */
export function ensureRedis(root, env, say) {
  if (env.REDIS_URL || (env.REDIS_SERVER_BIN && existsSync(env.REDIS_SERVER_BIN))) return;
  if (onPath('redis-server', env) || onPath('valkey-server', env)) return;
  const cache = join(root, '.cache/redis');
  if (existsSync(join(cache, 'usr/bin/redis-server'))) return;
  if (onPath('apt-get', env) && onPath('dpkg', env)) {
    const shown = relative(process.cwd(), cache);
    say(`no Redis found: unpacking Debian's packages into ${shown} (nothing is installed)`);
    const problem = unpackDebianRedis(cache, env);
    if (!problem) return;
    say(`that did not work: ${problem}`);
    if (process.getuid?.() === 0 && installWithApt(env, say)) return;
  }
  throw new Error(
    [
      'there is no Redis on this machine. One of these helps:',
      '  1. install one:  apt-get install redis-server   or   brew install valkey',
      '  2. run one:      docker run -d -p 6380:6379 redis:7 --appendonly yes --maxmemory-policy noeviction',
      '                   export REDIS_URL=redis://127.0.0.1:6380',
      '  3. use yours:    export REDIS_URL=redis://your-host:6379',
    ].join('\n'),
  );
}

/**
 * Downloads and unpacks a server into a folder without installing anything. Answers what went wrong, or undefined; a
 * folder without a working server is removed again.
 */
export function unpackDebianRedis(target, env) {
  const work = `${target}.partial`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  const problem = unpackInto(work, env) ?? failedStart(work, env);
  if (problem) {
    rmSync(work, { recursive: true, force: true });
    return problem;
  }
  rmSync(target, { recursive: true, force: true });
  renameSync(work, target);
  return undefined;
}

function unpackInto(work, env) {
  const problem = unpackDebianPackages(debianPackages, work, env);
  if (problem) return problem;
  const bin = join(work, 'usr/bin');
  if (!existsSync(join(bin, 'redis-check-rdb'))) return 'the packages have no server';
  // The program decides by its own name what it is.
  if (!existsSync(join(bin, 'redis-server'))) symlinkSync('redis-check-rdb', join(bin, 'redis-server'));
  return undefined;
}

function failedStart(work, env) {
  const libraries = ['usr/lib/x86_64-linux-gnu', 'usr/lib/aarch64-linux-gnu'].map((path) => join(work, path));
  const started = run(join(work, 'usr/bin/redis-server'), ['--version'], {
    env: { ...env, LD_LIBRARY_PATH: libraries.filter((path) => existsSync(path)).join(delimiter) },
  });
  return started.status === 0 && /redis server/i.test(started.stdout)
    ? undefined
    : `the server does not start (${lastLine(started.stderr)})`;
}

function installWithApt(env, say) {
  say('installing redis-server with apt-get, as root');
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', 'redis-server']]) {
    const { status } = spawnSync('apt-get', args, {
      env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
      // stdout belongs to the command that follows.
      stdio: ['ignore', 2, 2],
    });
    if (status !== 0) return false;
  }
  return onPath('redis-server', env);
}

function onPath(name, env) {
  return (env.PATH ?? '').split(delimiter).some((folder) => folder !== '' && existsSync(join(folder, name)));
}
