import { RunError } from '../../../shared/base/errors.ts';
import { runNotFound } from '../accept/validate.ts';
import { reach, type TenantClient } from '../client-core.ts';

/** Why nothing of a run can be read: it is past its time, as long as its id is remembered, or it never was. */
export async function missingRun(runId: string, client: TenantClient): Promise<RunError> {
  const known = await reach(client, ({ core, redis, tenant }) => redis.zscore(core.keys.index(tenant), runId));
  if (known === null) return runNotFound(runId);
  return new RunError('gone', `run ${runId} is past its time: nothing of it is kept any more (ARCHIVE_TTL_S)`);
}
