import { RunError } from '../../../shared/base/errors.ts';
import type { ArchivedRun } from '../../../shared/contract/archive/archived-run.ts';
import { isUnavailable } from '../../../shared/state/errors.ts';
import type { TenantClient } from '../client-core.ts';

/**
 * What the archive has of a run of the tenant. `unreadable`: it has something that is damaged, or of another version. The tenant's list
 * of runs has the id then, which proves whose it is. Undefined: there is nothing, or it is of another tenant.
 */
export async function archivedRun(
  runId: string,
  { core, tenant }: TenantClient,
): Promise<ArchivedRun | 'unreadable' | undefined> {
  try {
    return await core.archive.read(tenant, runId);
  } catch (error) {
    if (!(error instanceof RunError) || isUnavailable(error)) throw error;
    return 'unreadable';
  }
}

/** When a run was created, as the tenant's list of runs has it. Undefined: it is not in there. */
export async function listedAtMs(
  runId: string,
  { core, tenant }: Pick<TenantClient, 'core' | 'tenant'>,
): Promise<number | undefined> {
  const score = await core.reach((redis) => redis.zscore(core.keys.index(tenant), runId));
  return score === null ? undefined : Number(score);
}
