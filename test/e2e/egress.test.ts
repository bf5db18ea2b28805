import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { shareWorld } from '../support/world.ts';

/** Counts connections, on all addresses of this machine, and redirects them to `location`. */
async function listen(location?: string): Promise<{ readonly port: number; readonly connections: () => number }> {
  let connections = 0;
  const server: Server = createServer((_request, response) => {
    if (location === undefined) response.end('reached');
    else response.writeHead(302, { location }).end();
  });
  server.on('connection', () => connections++);
  server.listen(0);
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

/** An address that the operator allows, which redirects to an inner one. */
const door = createServer((_request, response) => response.writeHead(302, { location: inner }).end());
let inner = 'http://127.0.0.1:1/';
door.listen(0, '127.0.0.1');
await once(door, 'listening');
const doorPort = (door.address() as AddressInfo).port;
const shared = shareWorld({ env: { EGRESS_ALLOWED_HOSTS: `127.0.0.1:${doorPort}` } });

test('a run cannot reach what is inside, also through a redirect of an address that it may reach', async () => {
  const { world } = shared;
  const target = await listen();
  inner = `http://127.0.0.1:${target.port}/`;
  const urls = [
    `http://127.0.0.1:${target.port}/`,
    `https://[::ffff:127.0.0.1]:${target.port}/`,
    `https://2130706433:${target.port}/`,
    `https://localhost:${target.port}/`,
    'https://169.254.169.254/latest/meta-data/',
    `http://127.0.0.1:${doorPort}/`,
  ];
  const run = await world.submit('outgoing', [
    { calls: urls.map((url) => ({ name: 'http_request', args: { url } })) },
    { text: 'I could not.' },
  ]);
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  const errors = eventsOf(observed, 'tool.execute.error').map(({ error }) => error.kind);
  expect(errors).toEqual(urls.map(() => 'capability_blocked'));
  expect(target.connections()).toBe(0);
  door.close();
});
