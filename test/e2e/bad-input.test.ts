import { Queue } from 'bullmq';
import { expect, inject, onTestFinished, test } from 'vitest';
import { newRunId } from '../../src/shared/base/ids.ts';
import { call } from '../support/http.ts';
import { OwnRedis } from '../support/own-redis.ts';
import { planInput } from '../support/plan.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });
const good = { agent: 'plain', input: planInput({ text: 'ok' }) };

const deep = `{"agent":"plain","input":"x","metadata":${'{"a":'.repeat(70)}1${'}'.repeat(70)}}`;

const refused: [string, unknown, number, string][] = [
  ['no JSON', '{"agent":', 400, 'invalid_json'],
  ['two megabytes', JSON.stringify({ ...good, input: 'x'.repeat(2 * 1024 * 1024) }), 413, 'payload_too_large'],
  ['an unknown field', { ...good, colour: 'red' }, 400, 'validation'],
  ['a field of the wrong type', { ...good, priority: '1' }, 400, 'validation'],
  ['a number beyond its bounds', { ...good, limits: { maxSteps: 0 } }, 400, 'validation'],
  ['no input', { agent: 'plain' }, 400, 'validation'],
  ['an agent id with forbidden signs', { ...good, agent: '../x' }, 400, 'invalid_id'],
  ['JSON that is too deep', deep, 400, 'too_deep'],
  ['a field named like a credential', { ...good, metadata: { authorization: 'x' } }, 422, 'secret_in_payload'],
  ['an unknown agent', { ...good, agent: 'nonesuch' }, 400, 'validation'],
];

test.each(refused)('a request with %s is refused and leaves nothing', async (_, body, status, code) => {
  const { world } = shared;
  const before = (await world.mill.list()).runs.length;
  const answer = await call('POST', `${world.url}/v1/runs`, body);
  expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
  expect(answer.body.error).toMatchObject({ message: expect.any(String), retryable: false });
  expect((await world.mill.list()).runs).toHaveLength(before);
});

test('a body of another media type is refused', async () => {
  const answer = await call('POST', `${shared.world.url}/v1/runs`, 'agent=plain', {
    'content-type': 'application/x-www-form-urlencoded',
  });
  expect([answer.status, answer.body.error.code]).toEqual([415, 'unsupported_media_type']);
});

test('text with signs beyond 16 bits, zero-width and control-like ones comes back unchanged', async () => {
  const { world } = shared;
  const text = 'a\u200bb\u2028c bullmq:rateLimitExceeded \ud83d\ude00 \u0001 d';
  const run = await world.submit('plain', [{ text, pieces: 1 }]);
  expect((await world.ended(run)).view.result?.text).toBe(text);
});

test.each([
  ['of an unknown kind', { kind: 'nope' }],
  ['of a kind that has a queue of its own', { kind: 'postrun' }],
  ['without a segment', { segment: undefined }],
])('a job %s that another program added is failed at once, and never tried again', async (_, wrong) => {
  const { world } = shared;
  const queue = new Queue('runs', {
    connection: await testRedis('work', inject('redisUrl')),
    prefix: world.fleet.prefix,
  });
  onTestFinished(() => queue.close());
  const data = { v: 1, kind: 'agent.turn', runId: newRunId(Date.now()), segment: 0, ...wrong };
  const job = await queue.add('run', data, { attempts: 5 });
  await until('the job has failed', async () => (await job.getState()) === 'failed');
  const { attemptsMade, failedReason } = (await queue.getJob(job.id ?? '')) ?? {};
  expect([attemptsMade, failedReason]).toEqual([1, expect.stringMatching(/^validation: /)]);
});

test('while Redis is away every route answers 503 within five seconds, and all is well when it is back', async () => {
  const redis = await OwnRedis.start();
  const world = await makeWorld({ redisUrl: redis.url, producer: true });
  const run = await world.submit('plain', [{ text: 'before' }]);
  await world.ended(run);
  await redis.kill();
  const paths: [string, string, unknown?][] = [
    ['POST', '/v1/runs', good],
    ['GET', `/v1/runs/${run.runId}`],
    ['GET', `/v1/runs/${run.runId}/result?wait=30`],
    ['GET', `/v1/runs/${run.runId}/events`],
    ['POST', `/v1/runs/${run.runId}/cancel`],
    ['GET', '/v1/runs'],
    ['GET', '/readyz'],
  ];
  const began = performance.now();
  const answers = await Promise.all(paths.map(([method, path, body]) => call(method, `${world.url}${path}`, body)));
  expect(performance.now() - began).toBeLessThan(5_500);
  for (const [index, answer] of answers.entries()) {
    expect(answer.status, paths[index]?.join(' ')).toBe(503);
    expect(paths[index]?.[1] === '/readyz' || answer.body.error.code === 'queue_unavailable').toBe(true);
  }
  expect((await call('GET', `${world.url}/healthz`)).status).toBe(200);
  expect((await call('GET', `${world.worker.healthUrl}/healthz`)).status).toBe(200);
  expect((await call('GET', `${world.worker.healthUrl}/readyz`)).status).toBe(503);
  await redis.start();
  await world.reachable();
  const after = await untilAccepted(() => call('POST', `${world.url}/v1/runs`, good));
  expect((await world.ended(after.body)).view.status).toBe('completed');
});

async function untilAccepted(send: () => ReturnType<typeof call>): ReturnType<typeof call> {
  for (let tries = 0; tries < 200; tries++) {
    const answer = await send();
    if (answer.status === 202) return answer;
    expect(answer.status).toBe(503);
  }
  throw new Error('the producer did not come back');
}
