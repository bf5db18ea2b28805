import { expect, onTestFinished, test } from 'vitest';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { defineAgent, startWorker } from '../../../src/worker/index.ts';
import { serveHealth, type HealthChecks } from '../../../src/worker/ops/health.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { until } from '../../support/redis.ts';

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

test('a worker is not ready while Redis is full, stays live, and is ready again by itself', async () => {
  const redis = await OwnRedis.start();
  const direct = connect(redis.url, 'work', () => {});
  onTestFinished(() => direct.disconnect());
  await whenReady(direct, 20_000);
  const worker = await startWorker({ redis: redis.url, agents: [defineAgent({ id: 'a', model: 'any' })] });
  onTestFinished(() => worker.stop(0));
  const get = (path: string) => fetch(`http://127.0.0.1:${worker.healthPort}${path}`);
  expect((await get('/readyz')).status).toBe(200);
  await direct.call('CONFIG', 'SET', 'maxmemory', '1');
  const problem = await until('it is not ready', async () => {
    const response = await get('/readyz');
    return response.status === 503 ? await response.text() : undefined;
  });
  expect(problem).toContain('Redis is full: raise its maxmemory');
  expect((await get('/healthz')).status).toBe(200);
  await direct.call('CONFIG', 'SET', 'maxmemory', '0');
  await until('it is ready again', async () => (await get('/readyz')).status === 200);
});
