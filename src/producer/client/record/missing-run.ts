import { RunError } from '../../../shared/base/errors.ts';
import { alreadyEnded } from '../accept/already-ended.ts';
import { runNotFound } from '../accept/validate.ts';
import { reach, type TenantClient } from '../client-core.ts';

/**
 * Why nothing of a run could be read: it is past its time, or its tenant erased it, as long as that is remembered, or it was not there.
 * A record that is there now was written since the caller looked: the run is new, not past its time.
 */
export async function missingRun(runId: string, client: TenantClient): Promise<RunError> {
  const why = await reach(client, async ({ core: { keys }, redis, tenant }) => {
    const isListed = (await redis.zscore(keys.index(tenant), runId)) !== null;
    const wasErased = (await redis.exists(keys.wasErased(tenant, runId))) === 1;
    if ((!isListed && !wasErased) || (await redis.exists(keys.run(runId))) === 1) return 'not there';
    return isListed ? 'past' : 'erased';
  });
  if (why === 'not there') return runNotFound(runId);
  if (why === 'erased') return new RunError('gone', `run ${runId} was erased`, { details: { reason: why } });
  return new RunError('gone', `run ${runId} is past its time: nothing of it is kept any more (ARCHIVE_TTL_S)`);
}

/**
 * What is wrong with a run of which an action that stops it or decides about it has found no record: it has ended, where the archive has it,
 * or what {@link missingRun} says. Any other error is the answer as it is.
 */
export async function endedOrMissing(runId: string, error: unknown, client: TenantClient): Promise<unknown> {
  if (!(error instanceof RunError) || error.code !== 'run_not_found') return error;
  return (await client.core.archive.read(client.tenant, runId)) ? alreadyEnded(runId) : await missingRun(runId, client);
}
