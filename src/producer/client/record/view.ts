import { RunError } from '../../../shared/base/errors.ts';
import { runId as runIdSchema } from '../../../shared/base/ids.ts';
import type { ArchivedRun } from '../../../shared/contract/archive/archived-run.ts';
import { outcomeViewOf, viewOf, type RunOutcomeView, type RunView } from '../../../shared/contract/run.ts';
import { reach, type TenantClient } from '../client-core.ts';
import type { ResultOptions } from '../options.ts';
import { loadView, waitForEnd } from '../read-run.ts';
import { missingRun } from './missing-run.ts';

/** A run as it is shown: as its record says or, once that is gone, the archive. Throws `run_not_found` and `gone`. */
export async function readView(runId: string, client: TenantClient): Promise<RunView> {
  try {
    return await reach(client, (at) => loadView(runId, at));
  } catch (error) {
    const { record, decisions } = await archivedInstead(runId, error, client);
    return { ...viewOf(record, decisions), request: record.request };
  }
}

/** How a run has ended, or its state after the time to wait. */
export async function readOutcome(
  runId: string,
  options: ResultOptions,
  client: TenantClient,
): Promise<RunOutcomeView> {
  try {
    return outcomeViewOf(await waitForEnd(runId, options, client));
  } catch (error) {
    return outcomeViewOf((await archivedInstead(runId, error, client)).record);
  }
}

/** What the archive has of a run without a record. Throws any other error again. */
async function archivedInstead(runId: string, error: unknown, client: TenantClient): Promise<ArchivedRun> {
  if (!(error instanceof RunError) || error.code !== 'run_not_found' || !runIdSchema.safeParse(runId).success)
    throw error;
  const archived = await client.core.archive.read(client.tenant, runId);
  if (!archived) throw await missingRun(runId, client);
  return archived;
}
