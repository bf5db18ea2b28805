import { expect, test } from 'vitest';
import type { DurabilityLevel } from '../../../src/producer/diagnose.ts';
import { Readiness } from '../../../src/producer/http/readiness.ts';

const look = async (offered: DurabilityLevel, required: 'process' | 'host' | 'replica') => {
  const probes = { ping: async () => 'PONG', durability: async () => offered, unservedQueues: async () => [] };
  return await new Readiness(probes, required).look();
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
