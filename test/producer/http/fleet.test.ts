import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

const keys = ['a:north:read+write', 'b:south:read+write', 'root:north:*'];
const apiKeys = keys
  .map((entry) => {
    const [key = '', ...rest] = entry.split(':');
    return [createHash('sha256').update(key).digest('hex'), ...rest].join(':');
  })
  .join(',');
const as = (key: string) => ({ authorization: `Bearer ${key}` });

test('the fleet shows queues and providers, and what a provider wrote only to operators', async () => {
  const { send, redis, keys: names } = await serverWorld({ apiKeys });
  const at = new Date().toISOString();
  const lastError = { kind: 'auth', status: 401, message: 'the key of Kim', model: 'm', at };
  const report = { id: 'openai', kind: 'openai', hasKey: true, lastError };
  const info = { queues: ['runs'], concurrency: 5, active: 0, version: '1', providers: [report] };
  await redis.zadd(names.workers, Date.now(), 'w');
  await redis.hset(names.workerInfo, 'w', JSON.stringify(info));
  await send('POST', '/v1/runs', request, as('a'));
  const { status, body } = await send('GET', '/v1/fleet', undefined, as('b'));
  expect([status, body.queues.runs]).toEqual([200, { waiting: 1, active: 0, delayed: 0, failed: 0, workers: 1 }]);
  expect(body.providers).toEqual([{ ...report, lastError: { kind: 'auth', status: 401, model: 'm', at } }]);
  expect((await send('GET', '/v1/fleet', undefined, as('root'))).body.providers).toEqual([report]);
});

test('the facts of doctor need the scope admin, and name no run or thread of another tenant', async () => {
  const { send, redis, keys: names } = await serverWorld({ apiKeys });
  const stuck = async (key: string) => {
    const { body } = await send('POST', '/v1/runs', { ...request, delayMs: 60_000 }, as(key));
    const { runId } = body as { readonly runId: string };
    await redis.hset(names.run(runId), { updatedAt: new Date(Date.now() - 120_000).toISOString(), segment: 7 });
    return runId;
  };
  const [north] = [await stuck('a'), await stuck('b')];
  await redis.sadd(names.tenantsWaiting, 'south');
  await redis.sadd(names.accountsWaiting('south'), 'tenant:south');
  await redis.zadd(names.accountWaiting('south', 'tenant', 'south'), 1, 'x');
  expect((await send('GET', '/v1/doctor', undefined, as('a'))).status).toBe(403);
  const { status, body } = await send('GET', '/v1/doctor', undefined, as('root'));
  expect([status, body.openRuns]).toEqual([200, 2]);
  expect(body.stuckRuns.map(({ runId }: { runId: string }) => runId)).toEqual([north]);
  expect(JSON.stringify(body)).not.toContain('south');
});

test('the firehose sends the events of the tenant, as they come and without ids', async () => {
  const { url, send } = await serverWorld({ apiKeys });
  const open = async (accept: string) => {
    const stop = new AbortController();
    const answer = await fetch(`${url}/v1/events`, { headers: { ...as('a'), accept }, signal: stop.signal });
    expect(answer.status).toBe(200);
    let text = '';
    const reading = (async () => {
      for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) text += chunk;
    })().catch(() => {});
    return { text: () => text, close: () => (stop.abort(), reading) };
  };
  const [sse, lines] = [await open('text/event-stream'), await open('application/x-ndjson')];
  const [other] = [await send('POST', '/v1/runs', request, as('b'))];
  const { body } = await send('POST', '/v1/runs', request, as('a'));
  await expect.poll(() => sse.text() + lines.text()).toMatch(/event: run\.queued[\s\S]*"type":"run\.queued"/);
  await expect.poll(() => lines.text()).toContain(body.runId);
  expect(sse.text()).toContain(body.runId);
  expect(sse.text()).not.toMatch(/^id:/m);
  expect(sse.text() + lines.text()).not.toContain(other?.body.runId);
  await Promise.all([sse.close(), lines.close()]);
});
