import { jsonText } from '../../../shared/base/json.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { inGroups } from '../read-run.ts';
import { archivedRun } from './archived.ts';
import { refersTo } from './find.ts';

const pageSize = 200;
/** Runs and threads of the tenant that one call looks at, the newest of each. What is older refers to nothing as far as this goes. */
const maxRuns = 20_000;
const maxThreads = 2_000;

export interface Wanted {
  readonly media: readonly string[];
  readonly files: readonly string[];
}

/**
 * Which of these files other runs and threads of the tenant refer to, or may: all of them once one cannot be read. Reads nothing where
 * there is none to look for.
 */
export async function stillReferredTo(
  wanted: Wanted,
  without: { readonly runs: ReadonlySet<string>; readonly threads: ReadonlySet<string> },
  client: TenantClient,
): Promise<ReadonlySet<string>> {
  const { core, tenant } = client;
  const open = new Set([...wanted.media, ...wanted.files]);
  const used = new Set<string>();
  const look = (text: string | 'unreadable') => {
    const { media, files } = text === 'unreadable' ? wanted : refersTo(text);
    for (const name of [...media, ...files]) if (open.delete(name)) used.add(name);
  };
  const each = async (
    key: string,
    most: number,
    skip: ReadonlySet<string>,
    read: (id: string) => Promise<string | 'unreadable'>,
  ) => {
    for (let at = 0; at < most && open.size > 0; at += pageSize) {
      const ids = await core.reach((redis) => redis.zrevrange(key, at, at + pageSize - 1));
      await inGroups(
        ids.filter((id) => !skip.has(id)),
        async (id) => look(await read(id)),
      );
      if (ids.length < pageSize) return;
    }
  };
  await each(core.keys.index(tenant), maxRuns, without.runs, (id) => textOfRun(id, client));
  await each(core.keys.threads(tenant), maxThreads, without.threads, (id) => textOfThread(id, client));
  return used;
}

async function textOfRun(runId: string, client: TenantClient): Promise<string | 'unreadable'> {
  const { core } = client;
  const texts = await reach(client, async ({ redis }) => {
    const hash = await redis.hgetall(core.keys.run(runId));
    return hash['tenant'] === undefined
      ? undefined
      : [...Object.values(hash), ...(await redis.lrange(core.keys.journal(runId), 0, -1))];
  });
  // A journal may be gone that the archive has.
  const archived = await archivedRun(runId, client);
  if (archived === 'unreadable') return archived;
  return [...(texts ?? []), jsonText(archived ?? null)].join('\n');
}

async function textOfThread(threadId: string, { core, tenant }: TenantClient): Promise<string> {
  const entries = await core.reach((redis) => redis.xrange(core.keys.thread(tenant, threadId, 'log'), '-', '+'));
  return entries.map(([, fields]) => fields.join(' ')).join('\n');
}
