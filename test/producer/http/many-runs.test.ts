import { expect, test } from 'vitest';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

async function withRuns() {
  const world = await serverWorld();
  const north = await world.start({ ...request, metadata: { shop: 'north' } });
  const south = await world.start({ ...request, metadata: { shop: 'south' }, batch: 'nightly' });
  return { ...world, north, south };
}

test('a list is narrowed by metadata and counted', async () => {
  const { send, north } = await withRuns();
  const { status, body } = await send('GET', '/v1/runs?metadata.shop=north&counts=true');
  expect([status, body.counts]).toEqual([200, { total: 1, byStatus: { queued: 1 }, complete: true }]);
  expect(body.runs.map(({ runId }: { runId: string }) => runId)).toEqual([north.runId]);
  expect((await send('GET', '/v1/runs?counts=false')).body.counts).toBeUndefined();
  const twice = await send('GET', '/v1/runs?metadata.shop=north&metadata.shop=south');
  expect([twice.status, twice.body.error.code]).toEqual([400, 'validation']);
});

test('a condition on metadata whose text is empty is one, and widens neither a list nor an erasure', async () => {
  const { send, mill } = await serverWorld();
  const ended = async (metadata: Record<string, string>) => {
    const run = await mill.enqueue({ ...request, metadata });
    await run.cancel();
    return run.runId;
  };
  const [some, none] = [await ended({ shop: 'north', user: '7' }), await ended({ shop: 'north', user: '' })];
  const query = 'metadata.shop=north&metadata.user=';
  const listed = await send('GET', `/v1/runs?${query}&status=`);
  expect(listed.body.runs.map(({ runId }: { runId: string }) => runId)).toEqual([none]);
  expect((await send('DELETE', `/v1/runs?${query}&cursor=`)).body.receipt.runs).toEqual([none]);
  expect((await send('GET', `/v1/runs/${some}`)).status).toBe(200);
});

test('runs are cancelled by a filter', async () => {
  const { send, north } = await withRuns();
  const { status, body } = await send('POST', '/v1/runs/cancel', { metadata: { shop: 'south' } });
  expect([status, body]).toEqual([200, { matched: 1, done: 1, failures: [] }]);
  expect((await send('GET', `/v1/runs/${north.runId}`)).body.status).toBe('queued');
  for (const wrong of [{}, [], 'x', { shop: 'south' }]) {
    expect((await send('POST', '/v1/runs/cancel', wrong)).status, JSON.stringify(wrong)).toBe(400);
  }
});

test('failed runs are redriven, one or those that a filter fits', async () => {
  const { send, north, south, redis, keys } = await withRuns();
  const failed = { status: 'failed', error: JSON.stringify({ code: 'internal', message: 'x', retryable: false }) };
  for (const { runId } of [north, south]) await redis.hset(keys.run(runId), failed);
  const one = await send('POST', `/v1/runs/${north.runId}/redrive`);
  expect([one.status, one.body]).toEqual([202, { runId: north.runId, status: 'queued' }]);
  expect((await send('POST', `/v1/runs/${north.runId}/redrive`, {})).status, 'it has not failed').toBe(400);
  const many = await send('POST', '/v1/runs/redrive', { errorCode: 'internal' });
  expect([many.status, many.body]).toEqual([
    200,
    { matched: 1, done: 1, redriven: [south.runId], late: [], skipped: 0, more: false },
  ]);
  const wrong = await send('POST', '/v1/runs/redrive', { runId: north.runId });
  expect(wrong.body.error.message).toContain('/v1/runs/{id}/redrive');
  expect((await send('POST', `/v1/runs/${north.runId}/redrive`, { wait: 1 })).status).toBe(400);
});

test('a run is found by the beginning of its id', async () => {
  const { send, north } = await withRuns();
  const found = await send('GET', `/v1/run-ids/${north.runId.slice(0, 20).toLowerCase()}`);
  expect([found.status, found.body]).toEqual([200, { runId: north.runId }]);
  expect((await send('GET', '/v1/run-ids/01')).status).toBe(400);
  expect((await send('GET', '/v1/run-ids/ZZZZZ')).status).toBe(404);
});
