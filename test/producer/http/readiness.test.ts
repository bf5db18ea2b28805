import { expect, onTestFinished, test } from 'vitest';
import type { DurabilityLevel } from '../../../src/producer/client/diagnose/diagnose.ts';
import { ProducerReadiness } from '../../../src/producer/http/readiness.ts';
import { connect, whenReady } from '../../../src/shared/state/connect.ts';
import { OwnRedis } from '../../support/own-redis.ts';
import { until } from '../../support/redis.ts';
import { request } from '../cli/options/client.ts';
import { serverWorld } from './server-world.ts';

const look = async (offered: DurabilityLevel, required: 'process' | 'host' | 'replica') => {
  const probes = {
    writeProblem: async () => undefined,
    durability: async () => offered,
    unservedQueues: async () => [],
    providers: async () => [],
  };
  return await new ProducerReadiness(probes, required).look();
};

test('a producer that lacks nothing but its replica stays ready for what needs none, and says what is missing', async () => {
  expect(await look('host', 'replica')).toMatchObject({
    status: 'ready',
    durability: 'host',
    reason: expect.stringContaining('replica'),
  });
});

test.each([
  ['process', 'replica'],
  ['none', 'process'],
  ['process', 'host'],
] as const)('with %s where %s is asked for it is not ready', async (offered, required) => {
  expect((await look(offered, required)).status).toBe('not_ready');
});

test.each([
  ['full', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0'], 'raise its maxmemory'],
  ['a replica', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE'], 'promote it'],
] as const)(
  'a producer is not ready while Redis is %s, says what to do, and is ready again by itself',
  async (_, breaks, repairs, remedy) => {
    const redis = await OwnRedis.start();
    const direct = connect(redis.url, 'work', () => {});
    onTestFinished(() => direct.disconnect());
    await whenReady(direct, 20_000);
    const { send } = await serverWorld({ client: { redis: redis.url } });
    const accepted = await send('POST', '/v1/runs', request);
    expect(accepted.status).toBe(202);
    const [name, ...rest] = breaks;
    await direct.call(name, ...rest);
    expect((await send('POST', '/v1/runs', request)).status).toBe(503);
    const { body } = await until('it is not ready', async () => {
      const answer = await send('GET', '/readyz');
      return answer.status === 503 ? answer : undefined;
    });
    expect(body).toMatchObject({ status: 'not_ready', redis: 'refuses', reason: expect.stringContaining(remedy) });
    expect((await send('GET', '/healthz')).status).toBe(200);
    expect((await send('GET', `/v1/runs/${accepted.body.runId}`)).status).toBe(200);
    const [undo, ...how] = repairs;
    await direct.call(undo, ...how);
    await until('it is ready again', async () => (await send('GET', '/readyz')).status === 200);
    expect((await send('POST', '/v1/runs', request)).status).toBe(202);
  },
);
