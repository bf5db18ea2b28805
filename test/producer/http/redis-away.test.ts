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
  ['GET', '/v1/metrics/series'],
  ['GET', '/v1/agents'],
];

const batchId = `batch_${runId}`;
const asked = { model: 'support', input: 'x' };
/** Those with errors in OpenAI's shape, which says in a header whether a repeat is worth it. */
const doors: typeof routes = [
  ['GET', '/v1/files'],
  ['GET', `/v1/files/file-${runId}`],
  ['GET', `/v1/files/file-${runId}/content`],
  ['DELETE', `/v1/files/file-${runId}`],
  ['GET', '/v1/batches'],
  ['POST', '/v1/batches', { input_file_id: `file-${runId}`, endpoint: '/v1/runs' }],
  ['GET', `/v1/batches/${batchId}`],
  ['GET', `/v1/batches/${batchId}/events`],
  ...['pause', 'resume', 'cancel', 'redrive'].map((what): (typeof routes)[number] => [
    'POST',
    `/v1/batches/${batchId}/${what}`,
  ]),
  ['GET', '/v1/models'],
  ['GET', '/v1/models/support'],
  ['POST', '/v1/chat/completions', { model: 'support', messages: [{ role: 'user', content: 'x' }] }],
  ['POST', '/v1/chat/completions', { model: 'support', stream: true, messages: [{ role: 'user', content: 'x' }] }],
  ['POST', '/v1/responses', asked],
  ['POST', '/v1/responses', { ...asked, background: true, stream: true }],
  ['GET', `/v1/responses/resp_${runId}`],
  ['GET', `/v1/responses/resp_${runId}?stream=true`],
  ['GET', `/v1/responses/resp_${runId}/input_items`],
  ['POST', `/v1/responses/resp_${runId}/cancel`],
  ['DELETE', `/v1/responses/resp_${runId}`],
  ['POST', '/v1/conversations', {}],
  ['GET', `/v1/conversations/conv_${runId}`],
  ['GET', `/v1/conversations/conv_${runId}/items`],
];

/** The answer that every route must give, and the one each gave: within 5 seconds, or the request is aborted. */
const refusals = [...routes, ...doors].map(([method, path]) => [method, path, 503, 'queue_unavailable', true, '1']);

async function answersOf({ url }: ServerWorld): Promise<unknown[]> {
  const ask = async ([method, path, body]: (typeof routes)[number]) => {
    const json = body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const response = await fetch(url + path, { method, ...json, signal: AbortSignal.timeout(5_000) });
    const { error } = (await response.json()) as { error: { code: string; retryable?: boolean } };
    const retryable = error.retryable ?? response.headers.get('x-should-retry') === 'true';
    return [method, path, response.status, error.code, retryable, response.headers.get('retry-after')];
  };
  return await Promise.all([...routes, ...doors].map(ask));
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
