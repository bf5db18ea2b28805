import { onTestFinished, expect, inject, test } from 'vitest';
import { ClientCore } from '../../../../src/producer/client/client-core.ts';
import { missingRun } from '../../../../src/producer/client/record/missing-run.ts';
import { clientWorld, request } from '../../cli/options/client.ts';

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
