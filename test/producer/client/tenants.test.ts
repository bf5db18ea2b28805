import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import type { Millrace } from '../../../src/producer/client/millrace.ts';
import { clientWorld, request } from '../cli/options/client.ts';

const unknown = '01HZZZZZZZZZZZZZZZZZZZZZZZ';

const doors: readonly [string, (mill: Millrace, runId: string) => Promise<unknown>][] = [
  ['get', (mill, runId) => mill.get(runId)],
  ['result', (mill, runId) => mill.result(runId, { waitMs: 0 })],
  ['events', (mill, runId) => mill.events(runId)[Symbol.asyncIterator]().next()],
  ['cancel', (mill, runId) => mill.cancel(runId)],
  ['redrive', (mill, runId) => mill.redrive({ runId })],
];

test.each(doors)('%s answers for another tenant`s run exactly as for one that does not exist', async (_, open) => {
  const { mill, redis, keys } = await clientWorld();
  const stranger = mill.forTenant('stranger');
  const { runId } = await mill.enqueue(request);
  const before = await redis.hgetall(keys.run(runId));
  const answer = async (id: string) => {
    const error: unknown = await open(stranger, id).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RunError);
    const { code, message } = error as RunError;
    return `${code} ${message.replace(id, 'ID')}`;
  };
  expect(await answer(runId)).toBe(await answer(unknown));
  expect(await answer(runId)).toContain('run_not_found');
  expect(await redis.hgetall(keys.run(runId))).toEqual(before);
  expect(await redis.exists(keys.cancels)).toBe(0);
});

test('one tenant lists nothing of another, and the same execution id is another run', async () => {
  const { mill } = await clientWorld();
  const other = mill.forTenant('other');
  const mine = await mill.enqueue({ ...request, executionId: 'e' });
  const theirs = await other.enqueue({ ...request, executionId: 'e' });
  expect(theirs.runId).not.toBe(mine.runId);
  expect((await mill.list()).runs.map((run) => run.runId)).toEqual([mine.runId]);
  expect((await other.list()).runs.map((run) => run.runId)).toEqual([theirs.runId]);
});

test('redriving all of a tenant leaves the failed runs of another alone', async () => {
  const { mill, redis, keys } = await clientWorld();
  const { runId } = await mill.enqueue(request);
  await redis.hset(keys.run(runId), 'status', 'failed', 'endedAt', 'now');
  expect(await mill.forTenant('other').redrive()).toEqual({ redriven: [], late: [], skipped: 0, more: false });
  expect(await redis.hget(keys.run(runId), 'status')).toBe('failed');
});

test('a tenant whose name could reach other keys is refused', async () => {
  const { mill } = await clientWorld();
  for (const tenant of ['', 'a:b', '{x}', '*', 'x'.repeat(65)]) expect(() => mill.forTenant(tenant)).toThrow(RunError);
});

test('closing a tenant`s view leaves the client open', async () => {
  const { mill } = await clientWorld();
  await mill.forTenant('other').close();
  expect(await mill.enqueue(request)).toMatchObject({ status: 'queued' });
});
