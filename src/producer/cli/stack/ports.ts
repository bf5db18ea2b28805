import { createServer } from 'node:net';
import { RunError } from '../../../shared/base/errors.ts';

const maxTries = 100;

/** A port to listen on. */
export interface WantedPort {
  /** Without a setting: the first to try; 0 is any. */
  readonly port: number;
  /** The variable that asks for just this one. */
  readonly setting?: string | undefined;
}

/** The port of a variable: just that one where it is set, otherwise the first free one from its default on. */
export function wantedPort(
  env: Readonly<Record<string, string | undefined>>,
  setting: string,
  port: number,
): WantedPort {
  return { port, setting: env[setting] && port !== 0 ? setting : undefined };
}

/** Throws `invalid_config` when the port that a setting asks for is taken, and when 100 from the wanted one on are. */
export async function choosePort(host: string, { port, setting }: WantedPort): Promise<number> {
  if (setting === undefined) return await nextFreePort(host, port);
  if ((await tryPort(host, port)) !== undefined) return port;
  throw new RunError(
    'invalid_config',
    `${setting}: the port ${port} is taken on ${host}. Stop what listens there, or set ${setting} to another port; without ${setting} a free one is used`,
  );
}

/** For as many processes: the ports that follow the first one, as far as they are free. Throws as {@link choosePort}. */
export async function distinctPorts(host: string, first: WantedPort, count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const last = ports.at(-1);
    ports.push(await (last === undefined ? choosePort(host, first) : nextFreePort(host, first.port && last + 1)));
  }
  return ports;
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
