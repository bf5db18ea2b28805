import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';

/** A private Redis that lives as long as its parent. */
export interface DevRedis extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Resolves when the server has ended, with how. */
  readonly ended: Promise<string>;
  /** Ends the server by its pid. With `SIGKILL` nothing is flushed. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

export interface DevRedisOptions {
  /** Folder of the append-only file; created when missing. */
  readonly dir: string;
  readonly port: number;
  readonly extraArgs?: readonly string[];
  /** Environment to search for a server: `PATH`, and `REDIS_SERVER_BIN` first. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Root of the project, whose `.cache/redis` may hold an unpacked server. */
  readonly root: string;
}

/** Where a server binary is, and what it needs to start; undefined when there is none. */
export function findRedisServer(
  env: Readonly<Record<string, string | undefined>>,
  root: string,
): { bin: string; libraryPath?: string } | undefined {
  const given = env['REDIS_SERVER_BIN'];
  if (given && existsSync(given)) return { bin: given };
  for (const name of ['redis-server', 'valkey-server']) {
    for (const folder of (env['PATH'] ?? '').split(delimiter)) {
      if (folder && existsSync(join(folder, name))) return { bin: join(folder, name) };
    }
  }
  const unpacked = join(root, '.cache/redis/usr/bin/redis-server');
  if (!existsSync(unpacked)) return undefined;
  const libraries = ['usr/lib/x86_64-linux-gnu', 'usr/lib/aarch64-linux-gnu'].map((path) =>
    join(root, '.cache/redis', path),
  );
  return { bin: unpacked, libraryPath: libraries.filter((path) => existsSync(path)).join(delimiter) };
}

/** Starts a server with AOF on and `noeviction`, on the loopback. Rejects when it is not up in 10 s. */
export async function startDevRedis(options: DevRedisOptions): Promise<DevRedis> {
  const server = findRedisServer(options.env, options.root);
  if (!server) {
    throw new RunError(
      'invalid_config',
      'no Redis found. Set REDIS_URL, or install one (apt-get install redis-server, brew install valkey), or run `docker run -p 6380:6379 redis:7 --appendonly yes` and set REDIS_URL=redis://127.0.0.1:6380',
    );
  }
  mkdirSync(options.dir, { recursive: true });
  const fixed = '--bind 127.0.0.1 --appendonly yes --maxmemory-policy noeviction --daemonize no'.split(' ');
  const args = ['--port', String(options.port), '--dir', options.dir, '--save', '', ...fixed];
  const child = spawn(server.bin, [...args, ...(options.extraArgs ?? [])], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: options.env['PATH'], ...(server.libraryPath && { LD_LIBRARY_PATH: server.libraryPath }) },
    // A Ctrl-C in the terminal must not reach the server before those who still write to it.
    detached: true,
  });
  endWithParent(child);
  const { promise: ended, resolve } = Promise.withResolvers<string>();
  child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
  await untilReady(child).catch((error: unknown) => {
    child.kill('SIGKILL');
    throw error;
  });
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => endChild(child, signal);
  return {
    url: `redis://127.0.0.1:${options.port}`,
    port: options.port,
    pid: child.pid as number,
    ended,
    stop,
    [Symbol.asyncDispose]: () => stop(),
  };
}

/**
 * A parent that is killed runs no exit handler: a shell that waits for the end of its input, which is ours, ends the
 * server then.
 */
function endWithParent(child: ChildProcess): void {
  if (child.pid === undefined) return;
  const killWithParent = () => child.kill('SIGTERM');
  process.once('exit', killWithParent);
  const watchdog = spawn('/bin/sh', ['-c', 'read -r _; kill -TERM "$1"', 'sh', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  // Where there is no shell the exit handler is all there is.
  watchdog.on('error', () => {});
  watchdog.stdin?.on('error', () => {});
  watchdog.unref();
  child.once('exit', () => {
    process.off('exit', killWithParent);
    watchdog.kill('SIGKILL');
  });
}

async function untilReady(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let output = '';
  const fail = () => reject(new RunError('invalid_config', `redis-server did not start:\n${output}`));
  const timer = setTimeout(fail, 10_000);
  child.once('error', fail);
  child.once('exit', fail);
  const read = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000);
    if (output.includes('Ready to accept connections')) resolve();
  };
  child.stdout?.on('data', read);
  child.stderr?.on('data', read);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    child.off('exit', fail);
    child.stdout?.off('data', read).resume();
    child.stderr?.off('data', read).resume();
  }
}

async function endChild(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  child.kill(signal);
  const force = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await ended;
  clearTimeout(force);
}
