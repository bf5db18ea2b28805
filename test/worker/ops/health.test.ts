import { expect, onTestFinished, test } from 'vitest';
import { serveHealth, type HealthChecks } from '../../../src/worker/ops/health.ts';

async function server(checks: Partial<HealthChecks> = {}) {
  const all: HealthChecks = {
    live: () => true,
    notReady: async () => undefined,
    metrics: async () => ({ contentType: 'text/plain; version=0.0.4', body: 'x 1\n' }),
    ...checks,
  };
  const health = await serveHealth(0, '127.0.0.1', all);
  onTestFinished(() => health[Symbol.asyncDispose]());
  return async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${health.port}${path}`);
    return { status: response.status, text: await response.text(), type: response.headers.get('content-type') };
  };
}

test('a healthy worker answers its probes and shows its metrics', async () => {
  const get = await server();
  expect(await get('/healthz')).toMatchObject({ status: 200, text: 'ok\n' });
  expect(await get('/readyz?verbose=1')).toMatchObject({ status: 200, text: 'ready\n' });
  expect(await get('/metrics')).toMatchObject({ status: 200, text: 'x 1\n', type: 'text/plain; version=0.0.4' });
  expect((await get('/other')).status).toBe(404);
});

test('a worker that is not ready says why and stays alive', async () => {
  const get = await server({ notReady: async () => 'redis does not answer' });
  expect(await get('/readyz')).toMatchObject({ status: 503, text: 'redis does not answer\n' });
  expect((await get('/healthz')).status).toBe(200);
});

test('a worker whose fetch loop has ended is not live', async () => {
  const get = await server({ live: () => false });
  expect((await get('/healthz')).status).toBe(503);
});

test('a check that throws answers 500 and the server goes on', async () => {
  const get = await server({ metrics: () => Promise.reject(new Error('broken')) });
  expect((await get('/metrics')).status).toBe(500);
  expect((await get('/healthz')).status).toBe(200);
});
