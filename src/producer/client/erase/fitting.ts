import { isRecord } from '../../../shared/base/json.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { cursorOf, entriesAfter, startOf, type IndexEntry } from '../list-runs.ts';
import { inGroups } from '../read-run.ts';
import { whichFit } from '../run-filter.ts';

const pageSize = 200;

type Labels = Readonly<Record<string, string>>;

/** A run that fits, or only a place where the next call can go on. */
export interface Fitting {
  readonly runId: string | undefined;
  readonly cursor: string | undefined;
}

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
    const found = await inGroups([...entries.entries()], async ([i, entry]) => {
      const fact = facts[i];
      if (fact === 'gone') return (await fitsArchived(entry.runId, labels, client)) ? entry : undefined;
      return typeof fact === 'object' && fact.tenant === tenant ? entry : undefined;
    });
    for (const entry of found) if (entry) yield { runId: entry.runId, cursor: cursorOf(entry) };
    if (entries.length < pageSize) return;
    last = entries.at(-1);
    yield { runId: undefined, cursor: last && cursorOf(last) };
  }
}

async function fitsArchived(runId: string, labels: Labels, { core, tenant }: TenantClient): Promise<boolean> {
  const archived = await core.archive.read(tenant, runId);
  const record = isRecord(archived) ? archived['record'] : undefined;
  const request = isRecord(record) ? record['request'] : undefined;
  return hasLabels(isRecord(request) ? request['metadata'] : undefined, labels);
}

/** Does metadata have each of these keys with exactly this value? */
export function hasLabels(metadata: unknown, labels: Labels): boolean {
  if (!isRecord(metadata)) return false;
  return Object.entries(labels).every(([key, value]) => Object.hasOwn(metadata, key) && metadata[key] === value);
}
