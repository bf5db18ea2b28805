import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { freePort, startScratchRedis, type DevRedis } from '../../../src/shared/dev-redis.ts';
import { until } from '../../support/redis.ts';
import { request } from '../support/client.ts';
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
  ['GET', '/v1/agents'],
];

/** What was promised is 5 seconds; a request that takes longer is aborted here and fails the test. */
async function expectAllRefused({ url }: ServerWorld): Promise<void> {
  for (const [method, path, body] of routes) {
    const response = await fetch(url + path, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(5_000),
    });
    const { error } = (await response.json()) as { error: { code: string; retryable: boolean } };
    expect([response.status, error.code, error.retryable], path).toEqual([503, 'queue_unavailable', true]);
    expect(Number(response.headers.get('retry-after')), path).toBeGreaterThan(0);
  }
  const within = { signal: AbortSignal.timeout(1_000) };
  expect((await fetch(`${url}/healthz`, within)).status).toBe(200);
  const scraped = await fetch(`${url}/metrics`, within);
  expect(await scraped.text()).toContain('millrace_redis_up 0');
  const ready = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(1_000) });
  expect([ready.status, await ready.json()]).toMatchObject([503, { status: 'not_ready', redis: 'away' }]);
}

test('a Redis that was never there is answered with 503 on every route', async () => {
  await expectAllRefused(await serverWorld({ client: { redis: `redis://127.0.0.1:${await freePort()}` } }));
}, 60_000);

test('a Redis that goes away is answered with 503 on every route, and its return is noticed', async () => {
  const port = await freePort();
  const first = await scratchRedis(port);
  const world = await serverWorld({ client: { redis: first.url } });
  expect((await world.send('POST', '/v1/runs', request)).status).toBe(202);
  expect((await world.send('GET', '/readyz')).status).toBe(200);
  await first.stop();
  await expectAllRefused(world);
  await scratchRedis(port);
  await until('the server is ready again', async () => (await world.send('GET', '/readyz')).status === 200);
  expect((await world.send('POST', '/v1/runs', request)).status).toBe(202);
}, 60_000);

async function scratchRedis(port: number): Promise<DevRedis> {
  const dir = mkdtempSync(join(tmpdir(), 'millrace-away-'));
  const redis = await startScratchRedis({ dir, port, env: process.env, root: join(import.meta.dirname, '../../..') });
  onTestFinished(() => redis.stop());
  return redis;
}
