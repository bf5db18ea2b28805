import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What the probes ask. Liveness never asks Redis: restarting a worker does not bring Redis back. */
export interface HealthChecks {
  live(): boolean;
  /** The reason why no work should be expected from this worker now, or undefined when it is ready. */
  notReady(): Promise<string | undefined>;
  metrics(): Promise<{ contentType: string; body: string }>;
}

/** Serves `/healthz` (also `/livez`), `/readyz` and `/metrics`. Port 0 picks a free one. */
export async function serveHealth(port: number, host: string, checks: HealthChecks) {
  const server = createServer((request, response) => {
    answer(request.url ?? '/', response, checks).catch(() => send(response, 500, 'text/plain', 'error\n'));
  });
  server.requestTimeout = 5_000;
  server.keepAliveTimeout = 5_000;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answer(url: string, response: ServerResponse, checks: HealthChecks): Promise<void> {
  const say = (status: number, text: string) => send(response, status, 'text/plain', `${text}\n`);
  switch (url.replace(/\?.*/, '')) {
    case '/healthz':
    case '/livez':
      return checks.live() ? say(200, 'ok') : say(503, 'not live');
    case '/readyz': {
      const reason = await checks.notReady();
      return reason === undefined ? say(200, 'ready') : say(503, reason);
    }
    case '/metrics': {
      const { contentType, body } = await checks.metrics();
      return send(response, 200, contentType, body);
    }
    default:
      return say(404, 'not found');
  }
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'cache-control': 'no-store' }).end(body);
}
