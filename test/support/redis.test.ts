import { expect, test } from 'vitest';
import { testPrefix, testRedis } from './redis.ts';

test('the test Redis keeps an append-only file and evicts nothing', async () => {
  const redis = await testRedis();
  expect(await redis.set(`${testPrefix()}:x`, '1')).toBe('OK');
  expect(await redis.config('GET', 'appendonly')).toEqual(['appendonly', 'yes']);
  expect(await redis.config('GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction']);
});
