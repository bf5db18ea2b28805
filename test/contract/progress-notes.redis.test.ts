import { expect, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { redisProgress } from '../../src/shared/state/results/progress-notes.ts';
import { draft, progressContract } from './progress-notes.ts';
import { redisProgressWorld } from './progress-redis-world.ts';

progressContract('Redis', async () => (await redisProgressWorld()).worker);

test('notes are kept for their time, from the last one of the run', async () => {
  const { keys, redis, worker } = await redisProgressWorld();
  const notes = await worker();
  const { runId, tenant } = await notes.write(draft('one')).then((note) => ({ ...note, tenant: 'acme' }));
  const names = [keys.progress, keys.progressTexts, keys.progressNumbers].map((key) => key(tenant, runId));
  for (const name of names) await redis.expire(name, 5);
  await notes.write(draft('two'));
  for (const name of names) expect(await redis.ttl(name)).toBeGreaterThan(900);
});

test('a Redis that is away fails a write as such, and a read as queue_unavailable', async () => {
  const { keys, redis } = await redisProgressWorld();
  redis.disconnect();
  const notes = redisProgress({ redis, keys, clock: systemClock, ttlS: 10 });
  await expect(notes.write(draft('x'))).rejects.toMatchObject({ code: 'progress_write_failed' });
  await expect(notes.read('acme', 'run', {})).rejects.toMatchObject({ code: 'queue_unavailable' });
});
