import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { Redactor } from '../../../src/shared/base/redact.ts';
import { agentViewOf } from '../../../src/shared/contract/agent/agent.ts';
import { redisFleet } from '../../../src/shared/state/fleet/fleet.ts';
import { redisRateLimiter } from '../../../src/shared/state/limits/rate/polled-limiter.ts';
import { agentSheetOf } from '../../../src/worker/agents/agent-sheet.ts';
import { defineAgent } from '../../../src/worker/agents/define-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { aRequest } from '../../contract/rate-limiter.ts';
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

test('a worker shows the runs of the own tenant that it works on, and what is in use of the limits of models', async () => {
  const { send, redis, keys: names } = await serverWorld({ apiKeys });
  const start = async (key: string) => (await send('POST', '/v1/runs', request, as(key))).body.runId as string;
  const [north, south] = [await start('a'), await start('b')];
  const since = new Date().toISOString();
  const runs = [north, south].map((runId) => ({ runId, since }));
  const worker = { queues: ['runs'], concurrency: 5, active: 2, startedAt: since, version: '1', providers: [], runs };
  await redisFleet({ redis, keys: names }).heartbeat({ name: 'w', ...worker });
  await using limiter = redisRateLimiter({ redis, keys: names, clock: systemClock });
  const limits = { requestsPerMinute: 60, tokensPerMinute: 6_000, maxInFlight: 3 };
  const answer = await limiter.acquire(aRequest('r', limits), 1_000, new AbortController().signal);
  expect(answer.kind).toBe('granted');
  await expect.poll(async () => (await send('GET', '/v1/fleet', undefined, as('a'))).body.limits).toHaveLength(1);
  const { body } = await send('GET', '/v1/fleet', undefined, as('a'));
  expect(body.workers).toMatchObject([{ name: 'w', active: 2, concurrency: 5, runs: [{ runId: north, since }] }]);
  expect(JSON.stringify(body)).not.toContain(south);
  const use = { model: 'model', requests: 60, usedRequests: 1, tokens: 6_000, concurrency: 3, inFlight: 1, waiting: 0 };
  expect(body.limits).toMatchObject([use]);
  expect(body.limits[0].usedTokens).toBeGreaterThan(0);
});

test('an agent shows its definition and its tools, and one that nobody announced is not found', async () => {
  const { send, redis, keys: names } = await serverWorld({ apiKeys });
  const tool = defineTool({
    name: 'lookup',
    description: 'Looks an order up.',
    inputSchema: z.object({ id: z.string() }),
    effect: 'read',
    sensitivity: 'internal',
    needsApproval: true,
    execute: () => 'x',
  });
  const agent = defineAgent({
    id: 'support',
    model: 'm',
    instructions: 'The word is a-secret-of-mine.',
    tools: [tool],
    toolOptions: { lookup: { needsApproval: true } },
  });
  const sheet = agentSheetOf({ ...agent, file: 'support.ts' }, new Redactor(['a-secret-of-mine']));
  await redisFleet({ redis, keys: names }).announceAgents([{ view: agentViewOf(agent.definition), sheet }]);
  const { status, body } = await send('GET', '/v1/agents/support', undefined, as('b'));
  expect([status, body.id, body.tools]).toEqual([200, 'support', ['lookup']]);
  expect(body.toolDetails).toMatchObject([
    { name: 'lookup', effect: 'read', approval: 'always', sensitivity: 'internal', trust: 'user-defined' },
  ]);
  expect(body.toolDetails[0].parameters.properties).toEqual({ id: { type: 'string' } });
  expect(body.definition.instructions).toContain('The word is');
  expect(JSON.stringify(body)).not.toContain('a-secret-of-mine');
  expect(Date.parse(body.seenAt)).toBeGreaterThan(0);
  const missing = await send('GET', '/v1/agents/suport', undefined, as('b'));
  expect([missing.status, missing.body.error.code]).toEqual([404, 'not_found']);
  expect(missing.body.error.message).toContain('support');
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
  expect(body.checks).toContainEqual(expect.objectContaining({ name: 'stuck runs', level: 'fail' }));
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
