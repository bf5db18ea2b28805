import { randomInt } from 'node:crypto';
import { startDevRedis } from './dev-redis.ts';
import { redisHome } from './ensure-redis.ts';
import type { Cli } from '../cli.ts';
import { startChild, startWorkerChild, type LoadedFiles } from './child.ts';
import { requireProcessPackages } from './process-packages.ts';
import { Supervised } from './supervise.ts';
import { choosePort, distinctPorts, type WantedPort } from './ports.ts';

/** There is never anything at this path. */
const noFolder = '/dev/null/agents';

interface StackOptions {
  /** Environment of the processes beside what the stack itself decides. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A Redis that exists; absent: a private one is started. */
  readonly redisUrl: string | undefined;
  /** Folder of the private Redis' data. */
  readonly redisDir: string;
  readonly host: string;
  /** The port of the producer. */
  readonly port: WantedPort;
  /** Of the first worker; the next worker gets the next. */
  readonly workerPort: WantedPort;
  /** The port that the private Redis had the last time; 0 is any. */
  readonly redisPort: number;
  readonly workers: number;
  readonly graceMs: number;
  /** A line that one of the processes wrote. */
  readonly onLine: (name: string, line: string) => void;
  /** What a worker has read, whenever one serves. */
  readonly onLoaded: (loaded: LoadedFiles) => void;
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
  requireProcessPackages(cli);
  const { host, say, graceMs, onLine } = options;
  await using starting = new AsyncDisposableStack();
  const keep = (part: Supervised) => {
    starting.defer(() => part.stop());
    return part;
  };
  const redisUrl = options.redisUrl ?? (await startRedis(cli, options, keep));
  const env = { ...options.env, REDIS_URL: redisUrl, HOST: host };
  const port = await choosePort(host, options.port);
  const names = Array.from({ length: options.workers }, (_, index) =>
    options.workers === 1 ? 'worker' : `worker ${index + 1}`,
  );
  const ports = await distinctPorts(host, options.workerPort, names.length);
  const { port: wanted } = options.workerPort;
  if (wanted !== 0 && ports[0] !== wanted) say(`${wanted} is taken, so the health port of the worker is ${ports[0]}`);
  const about = (name: string, own: Record<string, string>) => {
    return { env: { ...env, ...own }, graceMs, onLine: (line: string) => onLine(name, line) };
  };
  // The workers announce the agents: no further process has to read them.
  const ofProducer = {
    ...about('producer', { PORT: String(port), MILLRACE_AGENTS: noFolder }),
    role: 'producer' as const,
  };
  const ofWorker = (name: string, index: number) => {
    return { ...about(name, { WORKER_PORT: String(ports[index]) }), onLoaded: options.onLoaded };
  };
  const [producer, ...workers] = await settleAll([
    Supervised.start('producer', () => startChild(ofProducer), say, cli.interrupted),
    ...names.map((name, index) =>
      Supervised.start(
        name,
        (whenLoaded, stopping) => startWorkerChild(ofWorker(name, index), whenLoaded, stopping),
        say,
        cli.interrupted,
      ),
    ),
  ]);
  if (producer) keep(producer);
  starting.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))));
  const running = starting.move();
  return { redisUrl, url: `http://${host}:${port}`, workers, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

async function startRedis(cli: Cli, options: StackOptions, keep: (part: Supervised) => Supervised): Promise<string> {
  // The same port each time, so that connected clients find it again, after a restart too.
  const port = await redisPortFrom(options);
  const { redisDir, say } = options;
  const start = () => startDevRedis({ dir: redisDir, env: cli.env, root: redisHome(cli), port });
  keep(await Supervised.start('redis', start, say, cli.interrupted));
  return `redis://127.0.0.1:${port}`;
}

async function redisPortFrom({ redisPort, say }: StackOptions): Promise<number> {
  const port = await choosePort('127.0.0.1', { port: redisPort || privatePort() });
  if (redisPort !== 0 && port !== redisPort)
    say(`another program listens on the port ${redisPort} of this folder's Redis: it is ${port} from now on`);
  return port;
}

/** Below the ports that operating systems give to outgoing connections, so that it is free again at the next start. */
function privatePort(): number {
  return randomInt(20_000, 32_000);
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
