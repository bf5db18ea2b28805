import { expect, test } from 'vitest';
import { connect } from '../../../src/shared/state/connect.ts';
import { call } from '../../support/http.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { planInput } from '../../support/plan.ts';
import { makeWorld } from '../../support/world.ts';

/** A server with a user of this rule; the URL is that user's. */
async function redisWithUser(...rule: readonly string[]): Promise<string> {
  const redis = await OwnRedis.start();
  const admin = connect(redis.url, 'work', () => {});
  await admin.call('ACL', 'SETUSER', 'runner', 'on', '>run-pass', ...rule);
  admin.disconnect();
  return redis.url.replace('redis://', 'redis://runner:run-pass@');
}

test('the rule of the docs is enough to accept, run and follow', async () => {
  const redisUrl = await redisWithUser('~t*', '&t*', '+@all', '-@dangerous', '+info');
  const world = await makeWorld({ redisUrl, producer: true });
  const ready = await call('GET', `${world.url}/readyz`);
  expect([ready.status, ready.body.status]).toEqual([200, 'ready']);
  const accepted = await call('POST', `${world.url}/v1/runs`, { agent: 'hands', input: planInput({ text: 'Done.' }) });
  expect(accepted.status).toBe(202);
  const { view, events } = await world.ended(accepted.body);
  expect(view.status).toBe('completed');
  expect(events.at(-1)?.type).toBe('run.completed');
});

test('a user of Redis without INFO is not ready, and every answer names what it lacks', async () => {
  const redisUrl = await redisWithUser('~*', '&*', '+@all', '-@dangerous');
  const world = await makeWorld({ redisUrl, producer: true, workers: 0 });
  const ready = await call('GET', `${world.url}/readyz`);
  expect([ready.status, ready.body.reason]).toEqual([
    503,
    'the user of REDIS_URL may not run INFO: add +info to its ACL rule',
  ]);
  const refused = await call('POST', `${world.url}/v1/runs`, { agent: 'hands', input: 'x' });
  expect([refused.status, refused.body.error.code]).toEqual([503, 'queue_unavailable']);
  expect(refused.body.error.message).toContain('+info');
});
