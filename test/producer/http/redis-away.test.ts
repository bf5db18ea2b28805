import { expect, onTestFinished, test } from 'vitest';
import type { DevRedis } from '../../../src/producer/cli/stack/dev-redis.ts';
import { freePort, startScratchRedis } from '../../support/scratch-redis.ts';
import { until } from '../../support/redis.ts';
import { request } from '../cli/options/client.ts';
import { serverWorld, type ServerWorld } from './server-world.ts';

const runId = '01ARZ3NDEKTSV4RRFFQ69G5FAV';
const routes: [string, string, unknown?][] = [
  ['POST', '/v1/runs', request],
  ['POST', '/v1/runs/bulk', [request]],
  ['GET', '/v1/runs'],
  ['GET', `/v1/runs/${runId}`],
  ['GET', `/v1/runs/${runId}/result`],
  ['GET', `/v1/runs/${runId}/result?wait=60`],
  ['GET', `/v1/runs/${runId}/events`],
  ['POST', `/v1/runs/${runId}/cancel`],
  ['POST', `/v1/runs/${runId}/decisions`, { budget: 'approve' }],
  ['GET', '/v1/budgets/batch/b'],
  ['PUT', '/v1/budgets/batch/b', { maxCostUsd: 1 }],
  ['POST', '/v1/budgets/batch/b/top-ups', { usd: 1 }],
  ['GET', '/v1/costs'],
  ['GET', '/v1/agents'],
];

/** The answer that every route must give, and the one each gave: within 5 seconds, or the request is aborted. */
const refusals = routes.map(([method, path]) => [method, path, 503, 'queue_unavailable', true, '1']);

async function answersOf({ url }: ServerWorld): Promise<unknown[]> {
  const ask = async ([method, path, body]: (typeof routes)[number]) => {
    const json = body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await fetch(url + path, { method, ...json, signal: AbortSignal.timeout(5_000) });
    const { error } = (await response.json()) as { error: { code: string; retryable: boolean } };
    return [method, path, response.status, error.code, error.retryable, response.headers.get('retry-after')];
  };
  return await Promise.all(routes.map(ask));
}

test('a Redis that was never there is answered with 503 on every route', async () => {
  const world = await serverWorld({ client: { redis: `redis://127.0.0.1:${await freePort()}` } });
  expect(await answersOf(world)).toEqual(refusals);
  expect((await world.send('GET', '/healthz')).status).toBe(200);
  expect((await world.send('GET', '/metrics')).body).toContain('millrace_redis_up 0\n');
  const { status, body } = await world.send('GET', '/readyz');
  expect([status, body.status, body.redis]).toEqual([503, 'not_ready', 'away']);
});

test('a Redis that goes away is answered with 503 on every route, and its return is noticed', async () => {
  const port = await freePort();
  const first = await scratchRedis(port);
  const world = await serverWorld({ client: { redis: first.url } });
  expect((await world.send('POST', '/v1/runs', request)).status).toBe(202);
  expect((await world.send('GET', '/readyz')).status).toBe(200);
  await first.stop();
  expect(await answersOf(world)).toEqual(refusals);
  await until('readiness has noticed', async () => (await world.send('GET', '/readyz')).status === 503);
  await scratchRedis(port);
  await until('the server is ready again', async () => (await world.send('GET', '/readyz')).status === 200);
  expect((await world.send('POST', '/v1/runs', request)).status).toBe(202);
});

async function scratchRedis(port: number): Promise<DevRedis> {
  const redis = await startScratchRedis({ port });
  onTestFinished(() => redis.stop());
  return redis;
}
