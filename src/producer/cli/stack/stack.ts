import { startDevRedis } from './dev-redis.ts';
import type { Cli } from '../cli.ts';
import { startChild } from './child.ts';
import { Supervised } from './supervise.ts';
import { createServer } from 'node:net';
import { RunError } from '../../../shared/base/errors.ts';

const maxTries = 100;

interface StackOptions {
  /** Environment of the processes beside what the stack itself decides. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A Redis that exists; absent: a private one is started. */
  readonly redisUrl: string | undefined;
  /** Folder of the private Redis' data. */
  readonly redisDir: string;
  readonly host: string;
  /** The port of the producer, or the first free one after it; 0 is any. */
  readonly port: number;
  /** The same for the first worker; the next worker gets the next. */
  readonly workerPort: number;
  readonly workers: number;
  readonly graceMs: number;
  /** A line that one of the processes wrote. */
  readonly onLine: (name: string, line: string) => void;
  /** What happens to the processes. */
  readonly say: (text: string) => void;
}

/** Everything that Millrace is, on this machine. */
export interface Stack extends AsyncDisposable {
  readonly redisUrl: string;
  readonly url: string;
  readonly workers: readonly Supervised[];
}

/**
 * Starts Redis if there is none, the producer and the workers, and keeps them alive. When this resolves all of them
 * serve. Disposing ends the workers first, so that their runs are handed over. Throws what kept a part
 * from starting, and leaves nothing behind.
 */
export async function startStack(cli: Cli, options: StackOptions): Promise<Stack> {
  const { host, say, graceMs, onLine } = options;
  await using starting = new AsyncDisposableStack();
  const keep = (part: Supervised) => {
    starting.defer(() => part.stop());
    return part;
  };
  const redisUrl = options.redisUrl ?? (await startRedis(cli, options, keep));
  const env = { ...options.env, REDIS_URL: redisUrl, HOST: host };
  const child = (name: string, role: 'producer' | 'worker', own: Record<string, string>) => {
    const about = { role, env: { ...env, ...own }, graceMs, onLine: (line: string) => onLine(name, line) };
    return Supervised.start(name, () => startChild(about), say);
  };
  const port = await nextFreePort(host, options.port);
  const names = Array.from({ length: options.workers }, (_, index) =>
    options.workers === 1 ? 'worker' : `worker ${index + 1}`,
  );
  const ports = await distinctPorts(host, options.workerPort, names.length);
  const [producer, ...workers] = await settleAll([
    child('producer', 'producer', { PORT: String(port) }),
    ...names.map((name, index) => child(name, 'worker', { WORKER_PORT: String(ports[index]) })),
  ]);
  if (producer) keep(producer);
  starting.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))));
  const running = starting.move();
  return { redisUrl, url: `http://${host}:${port}`, workers, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

async function startRedis(
  cli: Cli,
  { redisDir, say }: StackOptions,
  keep: (part: Supervised) => Supervised,
): Promise<string> {
  // The same port each time, so that connected clients find it again.
  const port = await nextFreePort('127.0.0.1', 0);
  const start = () => startDevRedis({ dir: redisDir, env: cli.env, root: cli.root, port });
  keep(await Supervised.start('redis', start, say));
  return `redis://127.0.0.1:${port}`;
}

async function distinctPorts(host: string, first: number, count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let wanted = first; ports.length < count; wanted = first === 0 ? 0 : (ports.at(-1) ?? first) + 1) {
    ports.push(await nextFreePort(host, wanted));
  }
  return ports;
}

/** Like `Promise.all`, but when one fails the others are stopped before it throws. */
async function settleAll(parts: readonly Promise<Supervised>[]): Promise<Supervised[]> {
  const settled = await Promise.allSettled(parts);
  const started = settled.flatMap((part) => (part.status === 'fulfilled' ? [part.value] : []));
  const failed = settled.find((part) => part.status === 'rejected');
  if (!failed) return started;
  await Promise.all(started.map((part) => part.stop()));
  throw failed.reason;
}

/** The wanted port, or the next free one; 0 finds any. Throws `invalid_config` when 100 are taken. */
export async function nextFreePort(host: string, wanted: number): Promise<number> {
  for (let port = wanted; port < wanted + maxTries && port <= 65_535; port++) {
    const found = await tryPort(host, port);
    if (found !== undefined) return found;
  }
  throw new RunError('invalid_config', `the ports from ${wanted} on are taken on ${host}`);
}

async function tryPort(host: string, port: number): Promise<number | undefined> {
  const server = createServer();
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  server.once('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(undefined);
    else reject(new RunError('invalid_config', `cannot listen on ${host}: ${error.message}`, { cause: error }));
  });
  server.listen({ host, port, exclusive: true }, () => {
    const address = server.address();
    const bound = typeof address === 'object' && address !== null ? address.port : port;
    server.close(() => resolve(bound));
  });
  return await promise;
}
