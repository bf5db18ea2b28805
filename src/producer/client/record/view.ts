import { RunError } from '../../../shared/base/errors.ts';
import { viewOf, type RunView } from '../../../shared/contract/run.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { loadView } from '../read-run.ts';
import { missingRun } from './missing-run.ts';

/** A run as it is shown: as its record says or, once that is gone, the archive. Throws `run_not_found` and `gone`. */
export async function readView(runId: string, client: TenantClient): Promise<RunView> {
  try {
    return await reach(client, (at) => loadView(runId, at));
  } catch (error) {
    if (!(error instanceof RunError) || error.code !== 'run_not_found') throw error;
    const archived = await client.core.archive.read(client.tenant, runId);
    if (!archived) throw await missingRun(runId, client);
    const { record, decisions } = archived;
    return { ...viewOf(record, decisions), request: record.request };
  }
}
