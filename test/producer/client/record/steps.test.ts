import { expect, test } from 'vitest';
import { clientWorld, request } from '../../cli/options/client.ts';

test('a damaged entry of the journal does not hide the run', async () => {
  const { mill, redis, keys } = await clientWorld();
  const { runId } = await mill.enqueue(request);
  const response = { v: 1, t: 'model_response', step: 1 };
  await redis.rpush(
    keys.journal(runId),
    'no json',
    '{"v":1,"t":"of a later version"}',
    JSON.stringify(response).slice(1),
  );
  expect(await mill.steps(runId)).toMatchObject({ runId, source: 'live', steps: [] });
  expect((await mill.export(runId)).steps.steps).toEqual([]);
});
