import { expect, test } from 'vitest';
import type { RunExport } from '../../../../src/shared/contract/archive/run-export.ts';
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

test('what the archive has of a run and cannot be read does not hide what its record says', async () => {
  const { mill, redis, keys } = await clientWorld();
  const { runId } = await mill.enqueue(request);
  await mill.cancel(runId);
  await redis.hset(keys.blobs(`run-${runId}`), 'record', Buffer.from([2, 0, 0, 0]));
  expect(await mill.steps(runId)).toMatchObject({ runId, source: 'live', status: 'cancelled' });
  await redis.del(keys.run(runId));
  await expect(mill.steps(runId)).rejects.toMatchObject({ message: expect.stringContaining('damaged') });
});

test('an export ends although runs name each other as children, are deeper than runs can be or too large together', async () => {
  const { mill, redis, keys } = await clientWorld();
  const runs = await Promise.all(Array.from({ length: 6 }, () => mill.enqueue(request)));
  const ids = runs.map(({ runId }) => runId);
  const at = '2026-01-01T00:00:00.000Z';
  const asksFor = async (runId: string, children: readonly string[]) =>
    await redis.rpush(
      keys.journal(runId),
      JSON.stringify({ v: 1, t: 'suspended', seq: 1, reason: 'child', at, children }),
    );
  for (const [index, id] of ids.entries()) await asksFor(id, [ids[(index + 1) % 6] as string, id]);
  const idsIn = ({ run, children }: RunExport): unknown => [run.runId, ...children.map(idsIn)];
  expect(idsIn(await mill.export(ids[0] as string))).toEqual([ids[0], [ids[1], [ids[2], [ids[3]]]]]);
  // Larger together than what a replay reads.
  const large = ids[5] as string;
  const text = 'x'.repeat(4 * 1_048_576);
  for (let n = 2; n < 11; n++) {
    const event = {
      v: 1,
      type: 'agent.end',
      runId: large,
      sequenceNumber: n,
      timestamp: at,
      output: text,
      status: 'a',
    };
    await redis.xadd(keys.events(large), `${n}-0`, 'e', JSON.stringify(event));
  }
  const cut = await mill.export(ids[4] as string);
  expect([cut.truncated, cut.children]).toEqual([true, []]);
});
