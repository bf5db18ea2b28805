import { RunError } from '../../../shared/base/errors.ts';
import type { ArchivedRun } from '../../../shared/contract/archive/archived-run.ts';
import type { TenantClient } from '../client-core.ts';
import { inGroups } from '../read-run.ts';

/** Ids are remembered so much longer than the archive keeps runs: what is past its time differs from what never was. */
const goneKeptMs = 7 * 86_400_000;

/** What lists show of a run that only the archive has, and look at. */
export type ListedRun = Pick<ArchivedRun, 'record' | 'changedLabels'>;

/**
 * Runs that only the archive has, of these ids. Those that cannot be read are left out: one of them must not hide
 * the others.
 */
export async function archivedRuns(
  runIds: readonly string[],
  { core, tenant }: TenantClient,
): Promise<ReadonlyMap<string, ListedRun>> {
  if (core.archive.ttlS === 0) return new Map();
  const found = await inGroups(runIds, async (runId) => {
    try {
      const found = await core.archive.read(tenant, runId);
      return found && { record: found.record, changedLabels: found.changedLabels };
    } catch (error) {
      if (error instanceof RunError && error.code === 'queue_unavailable') throw error;
      return undefined;
    }
  });
  return new Map(found.flatMap((run) => (run ? [[run.record.runId, run] as const] : [])));
}

/** How long it is known of a run that has ended that it was there, in milliseconds. */
export function rememberedMs({ core }: Pick<TenantClient, 'core'>): number {
  return core.archive.ttlS * 1_000 + goneKeptMs;
}

/** May the id of a run be forgotten that was created then, and of which nothing is kept any more? */
export function isForgotten(createdAtMs: number, client: TenantClient): boolean {
  return createdAtMs < Date.now() - rememberedMs(client);
}
