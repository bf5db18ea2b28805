import { createServer } from 'node:net';
import { RunError } from '../../../shared/base/errors.ts';

const maxTries = 100;

/** The wanted port, or the next one that nobody listens on; 0 finds any. Throws `invalid_config` when 100 are taken. */
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
