import { onTestFinished, expect, inject, test } from 'vitest';
import { ClientCore } from '../../../../src/producer/client/client-core.ts';
import { missingRun } from '../../../../src/producer/client/record/missing-run.ts';
import { archived, writeOne, written } from '../../../contract/archive.ts';
import { clientWorld, codeOf, request } from '../../cli/options/client.ts';

test('a run that is created while a caller looks for it is not there yet, and never past its time', async () => {
  const { mill, prefix, redis, keys } = await clientWorld();
  const core = new ClientCore({ redis: inject('redisUrl'), prefix });
  onTestFinished(() => core.close());
  const client = (tenant: string) => ({ core, tenant, rights: 'operator' as const, requestId: undefined });
  const { runId } = await mill.enqueue(request);
  // What a caller does who found neither a record nor an archive, a moment before the run was created.
  expect((await missingRun(runId, client('default'))).code).toBe('run_not_found');
  await redis.del(keys.run(runId));
  expect((await missingRun(runId, client('default'))).code).toBe('gone');
  expect((await missingRun(runId, client('other'))).code).toBe('run_not_found');
});

test('a run that its tenant erased is said to be erased, as long as one past its time is, and to no other tenant', async () => {
  const { mill, redis, keys } = await clientWorld({ archiveTtlS: 3_600 });
  const run = await mill.enqueue({ ...request, executionId: 'once' });
  const { runId } = run;
  await run.cancel();
  await mill.erase({ run: runId });
  const erased = { code: 'gone', details: { reason: 'erased' } };
  const asks = [() => mill.get(runId), () => mill.steps(runId), () => mill.cancel(runId)];
  for (const ask of [...asks, () => mill.erase({ run: runId })]) await expect(ask()).rejects.toMatchObject(erased);
  const other = mill.forTenant('other');
  for (const ask of [() => other.get(runId), () => other.erase({ run: runId })])
    await expect(ask()).rejects.toMatchObject({ code: 'run_not_found' });
  const leftMs = await redis.pttl(keys.wasErased('default', runId));
  expect(leftMs).toBeGreaterThan((3_600 + 7 * 86_400) * 1_000 - 60_000);
  expect(Date.now() - Number(await redis.get(keys.wasErased('default', runId)))).toBeLessThan(60_000);
  // One of the same id that was there since, and is past its time.
  await redis.zadd(keys.index('default'), Date.now(), runId);
  await expect(mill.get(runId)).rejects.toMatchObject({ code: 'gone', message: expect.stringContaining('past') });
});

test('a cancel of a run of which only the archive is left, and a decision about it, say that it has ended', async () => {
  const { mill, prefix, redis, keys } = await clientWorld();
  const core = new ClientCore({ redis: inject('redisUrl'), prefix });
  onTestFinished(() => core.close());
  const { runId } = await mill.enqueue(request);
  const at = new Date().toISOString();
  await writeOne(core.archive, written(archived(runId, 'default', at)));
  await redis.del(keys.run(runId));
  const decision = { approvals: [{ toolCallId: 'c', granted: true }] };
  expect(await codeOf(mill.cancel(runId))).toBe('already_terminal');
  expect(await codeOf(mill.decide(runId, decision))).toBe('already_terminal');
  await core.archive.drop('default', { runId, createdAt: at });
  expect(await codeOf(mill.cancel(runId))).toBe('gone');
  expect(await codeOf(mill.decide(runId, decision))).toBe('gone');
  expect(await codeOf(mill.findRunId(runId.slice(0, 20)))).toBe('gone');
  await redis.zrem(keys.index('default'), runId);
  expect(await codeOf(mill.cancel(runId))).toBe('run_not_found');
  expect(await codeOf(mill.decide(runId, decision))).toBe('run_not_found');
  expect(await codeOf(mill.findRunId(runId.slice(0, 20)))).toBe('run_not_found');
});
