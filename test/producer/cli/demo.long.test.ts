import { expect, inject, test } from 'vitest';
import { testRedis } from '../../support/redis.ts';
import { millraceProcess } from './support/cli-process.ts';

test('the demo streams a run, survives a killed worker and leaves nothing in the Redis it was given', async () => {
  const { code, stdout, stderr } = await millraceProcess(['demo'], { env: { REDIS_URL: inject('redisUrl') } });
  expect(stderr).toBe('');
  expect(stdout).toMatch(/watch it in a browser: http:\/\/127\.0\.0\.1:\d+\/runs\n/);
  expect(stdout).toMatch(/ http:\/\/127\.0\.0\.1:\d+\/runs\/01[0-9A-Z]{24}\n/);
  expect(stdout).toContain('→ lookup_order {"order":"1042"}');
  expect(stdout).toContain('Order 1042 was delivered on Monday.');
  expect(stdout).toMatch(/kill -9 \d+ \(worker 2\)/);
  expect(stdout).toMatch(/^completed +60$/m);
  expect(stdout).toMatch(/^cost +\$0\.00\d+/m);
  expect(stdout).toContain('Nothing was lost.');
  expect(code).toBe(0);
  const redis = await testRedis();
  expect((await redis.keys('*')).filter((key) => /^\{?demo-/.test(key))).toEqual([]);
}, 120_000);
