import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { readFileSync } from 'node:fs';
import { isIP, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { Lookup } from '../../src/shared/egress/guarded-agent.ts';

/** Hosts that must be refused, as URLs write them. */
export const refusedHosts = readFileSync(join(import.meta.dirname, '../fixtures/egress/refused-hosts.txt'), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));

/** In a block of the global addresses that is not assigned: no test may reach a public one. */
const publicAddress = '2d00::1';

/**
 * Resolves the names of tests. `evil`, `mixed` and `meta` have refused addresses, `rebind` has a public one at the first
 * question and loopback afterwards, everything else is unknown. `onPublic` hears of a public answer.
 */
export function testLookup(onPublic: () => void = () => {}): Lookup & { readonly asked: readonly string[] } {
  const asked: string[] = [];
  const addresses = (hostname: string): string[] => {
    if (hostname === 'evil.test') return ['127.0.0.1'];
    if (hostname === 'mixed.test') return [publicAddress, '127.0.0.1'];
    if (hostname === 'meta.test') return ['169.254.169.254'];
    if (hostname === 'rebind.test')
      return [asked.filter((name) => name === hostname).length === 1 ? publicAddress : '127.0.0.1'];
    return [];
  };
  const lookup: Lookup = (hostname, _options, callback) => {
    asked.push(hostname);
    const found = addresses(hostname).map((address) => ({ address, family: isIP(address) }));
    const error = found.length === 0 ? Object.assign(new Error('unknown'), { code: 'ENOTFOUND' }) : null;
    setImmediate(() => {
      callback(error, found);
      if (found.length === 1 && found[0]?.address === publicAddress) onPublic();
    });
  };
  return Object.assign(lookup, { asked });
}

/** A server on a free port of every loopback address. It counts connections, whatever is sent over them. */
export async function startListener(answer: RequestListener = (_request, response) => void response.end('ok')) {
  const server = createServer(answer);
  let connections = 0;
  server.on('connection', () => connections++);
  server.listen(0, '::');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    get connections() {
      return connections;
    },
  };
}
