import { expect, test } from 'vitest';
import { runOutcomeView, runView } from '../../../src/shared/contract/run.ts';
import { until } from '../../support/redis.ts';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

test('a run is accepted with its location, and can be read there', async () => {
  const { send } = await serverWorld();
  const { status, body, headers } = await send('POST', '/v1/runs', request);
  expect([status, body]).toEqual([
    202,
    {
      runId: expect.any(String),
      status: 'queued',
      attached: false,
      warnings: ['no live worker serves queue runs: the run waits until one does'],
    },
  ]);
  expect(headers.get('location')).toBe(`/v1/runs/${body.runId}`);
  const read = await send('GET', `/v1/runs/${body.runId}`);
  expect(read.status).toBe(200);
  expect(runView.parse(read.body)).toMatchObject({ runId: body.runId, agent: 'support', status: 'queued' });
});

test('the header Idempotency-Key is the execution id', async () => {
  const { send } = await serverWorld();
  const key = { 'idempotency-key': 'order-7' };
  const first = await send('POST', '/v1/runs', request, key);
  expect((await send('POST', '/v1/runs', request, key)).body).toEqual({ ...first.body, attached: true });
  expect((await send('POST', '/v1/runs', { ...request, executionId: 'order-7' })).body).toEqual({
    ...first.body,
    attached: true,
  });
  expect((await send('POST', '/v1/runs', { ...request, executionId: 'order-7' }, key)).status).toBe(202);

  const other = await send('POST', '/v1/runs', { ...request, input: 'Another question' }, key);
  expect([other.status, other.body.error.code]).toEqual([409, 'idempotency_conflict']);
  const both = await send('POST', '/v1/runs', { ...request, executionId: 'order-8' }, key);
  expect([both.status, both.body.error.code]).toEqual([400, 'validation']);
});

test('runs are listed newest first, filtered and page by page', async () => {
  const { send, start } = await serverWorld();
  const ids: string[] = [];
  for (const agent of ['a', 'b', 'a']) ids.unshift((await start({ ...request, agent })).runId);
  const idsOf = (answer: { body: { runs: { runId: string }[] } }) => answer.body.runs.map(({ runId }) => runId);
  expect(idsOf(await send('GET', '/v1/runs'))).toEqual(ids);
  expect(idsOf(await send('GET', '/v1/runs?agent=b&status=queued'))).toEqual([ids[1]]);
  expect(idsOf(await send('GET', '/v1/runs?status=failed'))).toEqual([]);
  const page = await send('GET', '/v1/runs?limit=2');
  expect(idsOf(page)).toEqual(ids.slice(0, 2));
  const next = await send('GET', `/v1/runs?limit=2&cursor=${encodeURIComponent(page.body.cursor)}`);
  expect(idsOf(next)).toEqual(ids.slice(2));
  expect(idsOf(await send('GET', '/v1/runs?status=&agent=&thread=&cursor=&limit='))).toEqual(ids);
});

test('a result is 202 until the run has ended and 200 from then on', async () => {
  const { send, start } = await serverWorld();
  const run = await start();
  const path = `/v1/runs/${run.runId}/result`;
  const early = await send('GET', path);
  expect([early.status, early.body.status]).toEqual([202, 'queued']);
  expect((await send('GET', `${path}?wait=0.05`)).status).toBe(202);
  const waiting = send('GET', `${path}?wait=30`);
  await run.end();
  const { status, body } = await waiting;
  expect(status).toBe(200);
  expect(runOutcomeView.parse(body)).toMatchObject({
    status: 'completed',
    text: 'It is on its way.',
    costMicrocents: 700,
  });
});

test('the result of a run that failed is an answer, not an error', async () => {
  const { send, start } = await serverWorld();
  const run = await start();
  await run.end('failed');
  const { status, body } = await send('GET', `/v1/runs/${run.runId}/result?wait=5`);
  expect([status, body.status, body.error.code]).toEqual([200, 'failed', 'provider_unavailable']);
});

test('a client that goes away ends its wait for a result', async () => {
  const lines: string[] = [];
  const { url, start, redis, keys } = await serverWorld({ lines });
  const run = await start();
  const leave = new AbortController();
  const waiting = fetch(`${url}/v1/runs/${run.runId}/result?wait=60`, { signal: leave.signal });
  const listeners = async () => Number((await redis.pubsub('NUMSUB', keys.live(run.runId)))[1]);
  await until('the server listens to the run', async () => (await listeners()) === 1);
  leave.abort();
  await expect(waiting).rejects.toThrow('aborted');
  await until('the server has stopped listening', async () => (await listeners()) === 0);
  expect(lines).toEqual([]);
});

test('a waiting run is cancelled at once, and only once', async () => {
  const { send, start } = await serverWorld();
  const { runId } = await start();
  const cancelled = await send('POST', `/v1/runs/${runId}/cancel`);
  expect([cancelled.status, cancelled.body]).toEqual([202, { runId, status: 'cancelled', cancelling: false }]);
  const again = await send('POST', `/v1/runs/${runId}/cancel`, {});
  expect([again.status, again.body.error.code]).toEqual([409, 'already_terminal']);
});

test('a running run is asked to stop, with what the body says', async () => {
  const { send, start, redis, keys } = await serverWorld();
  const run = await start();
  await run.start();
  const { status, body } = await send('POST', `/v1/runs/${run.runId}/cancel`, { drain: true });
  expect([status, body]).toEqual([202, { runId: run.runId, status: 'running', cancelling: true }]);
  expect(JSON.parse((await redis.hget(keys.run(run.runId), 'cancel')) ?? '')).toMatchObject({ drain: true });
  const wrong = await send('POST', `/v1/runs/${run.runId}/cancel`, { drain: 'yes' });
  expect([wrong.status, wrong.body.error.code, wrong.body.error.details[0].path]).toEqual([400, 'validation', 'drain']);
});

test('announced agents are listed, and from then on an unknown one is refused', async () => {
  const { send, mill } = await serverWorld();
  const agent = { id: 'support', model: 'm', tools: ['look'] };
  await mill.registerAgents([agent]);
  expect((await send('GET', '/v1/agents')).body).toEqual({ agents: [agent] });
  expect((await send('POST', '/v1/runs', request)).status).toBe(202);
  const unknown = await send('POST', '/v1/runs', { ...request, agent: 'no-one' });
  expect([unknown.status, unknown.body.error.code, unknown.body.error.details[0].path]).toEqual([
    400,
    'validation',
    'agent',
  ]);
});
