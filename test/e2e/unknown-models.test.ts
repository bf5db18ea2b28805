import { expect, test } from 'vitest';
import { keysFor } from '../../src/shared/state/keys.ts';
import { testRedis } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld();

test('models that are not configured are no names of metrics, limiters, breakers and cost counters', async () => {
  const { world } = shared;
  const runs = await Promise.all(
    [1, 2, 3].map((n) => world.submit('plain', [{ text: 'x' }], { overrides: { model: `made-up-${n}` } })),
  );
  for (const run of runs) expect((await world.ended(run)).view.attempts).toMatchObject([{ outcome: 'succeeded' }]);
  const run = await world.submit('plain', [{ text: 'x' }]);
  await world.ended(run);

  const metrics = await (await fetch(`${world.worker.healthUrl}/metrics`)).text();
  expect(metrics).not.toContain('made-up');
  expect(metrics).toMatch(/^millrace_llm_attempts_total\{[^}]*model="other"[^}]*\} 3$/m);
  expect(metrics).toMatch(/^millrace_llm_attempts_total\{[^}]*model="gpt-4o-mini"[^}]*\} 1$/m);

  const { rows } = await world.mill.costs({ by: ['model'] });
  expect(Object.fromEntries(rows.map(({ model, attempts }) => [model, attempts]))).toEqual({
    'gpt-4o-mini': 1,
    other: 3,
  });
  const faults = Array.from({ length: 20 }, () => ({ kind: 'status', status: 503 }) as const);
  await world.ended(await world.submit('plain', [{ text: 'x', faults }], { overrides: { model: 'made-up-4' } }));
  const redis = await testRedis('work', world.fleet.redisUrl);
  expect(await redis.smembers(keysFor(world.fleet.prefix).breakers)).toEqual(['openai/other']);
  expect(await redis.keys(`${world.fleet.prefix}:*made-up*`)).toEqual([]);
});
