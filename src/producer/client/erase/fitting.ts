import { hasLabels, type Labels } from '../../../shared/contract/archive/labels.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { cursorOf, entriesAfter, startOf, type IndexEntry } from '../list-runs.ts';
import { inGroups } from '../read-run.ts';
import { whichFit } from '../run-filter.ts';
import { archivedRun } from './archived.ts';

const pageSize = 200;

/** A run that fits, one of which only a record is left that cannot be read, or a place where the next call can go on. */
export type Fitting =
  | { readonly kind: 'fits'; readonly runId: string; readonly cursor: string }
  | { readonly kind: 'unreadable'; readonly runId: string }
  | { readonly kind: 'page'; readonly cursor: string | undefined };

/** The tenant's runs with this metadata, newest first, those of the archive too. */
export async function* eachFitting(
  labels: Labels,
  cursor: string | undefined,
  client: TenantClient,
): AsyncGenerator<Fitting> {
  const { core, tenant } = client;
  let last: IndexEntry | undefined = startOf({ cursor });
  for (;;) {
    const from = last;
    const [entries, facts] = await reach(client, async ({ redis }) => {
      const page = await entriesAfter(from, core.keys.index(tenant), pageSize, redis);
      const ids = page.map(({ runId }) => runId);
      return [page, await whichFit(ids, { metadata: labels }, { redis, keys: core.keys })] as const;
    });
    const found = await inGroups([...entries.entries()], async ([i, entry]): Promise<readonly Fitting[]> => {
      const { runId } = entry;
      const fact = facts[i];
      const isOwn = typeof fact === 'object' && fact.tenant === tenant;
      const kind = fact === 'gone' ? await fitsArchived(runId, labels, client) : isOwn && 'fits';
      if (kind === 'unreadable') return [{ kind, runId }];
      return kind === 'fits' ? [{ kind, runId, cursor: cursorOf(entry) }] : [];
    });
    yield* found.flat();
    if (entries.length < pageSize) return;
    last = entries.at(-1);
    yield { kind: 'page', cursor: last && cursorOf(last) };
  }
}

async function fitsArchived(
  runId: string,
  labels: Labels,
  client: TenantClient,
): Promise<'fits' | 'unreadable' | undefined> {
  const archived = await archivedRun(runId, client);
  if (archived === undefined || archived === 'unreadable') return archived;
  const { record, changedLabels: changed } = archived;
  return hasLabels({ runId, metadata: record.request.metadata, changed }, labels) ? 'fits' : undefined;
}
