import { pairsOf } from '../../../shared/base/collections.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { inGroups } from '../read-run.ts';
import { archivedRun } from './archived.ts';
import { refersTo } from './find.ts';

const pageSize = 200;
/** How long one erasure looks for references. Most tenants have no more runs and threads than can be looked at in this time. */
const maxWalkMs = 60_000;

export interface Wanted {
  readonly media: readonly string[];
  readonly files: readonly string[];
}

/**
 * Which of these files other runs and threads of the tenant refer to, or may: all of them once one cannot be read, and those that were
 * not found when the time was over. Reads nothing where there is none to look for.
 */
export async function stillReferredTo(
  wanted: Wanted,
  without: { readonly runs: ReadonlySet<string>; readonly threads: ReadonlySet<string> },
  client: TenantClient,
  maxMs = maxWalkMs,
): Promise<ReadonlySet<string>> {
  const { keys } = client.core;
  const until = performance.now() + maxMs;
  const open = new Set([...wanted.media, ...wanted.files]);
  const used = new Set<string>();
  // What cannot be read may refer to all of them.
  const look = (text: string | undefined) => {
    const { media, files } = text === undefined ? wanted : refersTo(text);
    for (const name of [...media, ...files]) if (open.delete(name)) used.add(name);
  };
  const each = async (
    key: string,
    skip: ReadonlySet<string>,
    read: (id: string) => Promise<string | undefined>,
  ): Promise<void> => {
    for await (const ids of membersOf(key, client)) {
      await inGroups(
        ids.filter((id) => !skip.has(id)),
        async (id) => look(await read(id)),
      );
      if (open.size === 0 || performance.now() > until) return;
    }
  };
  if (open.size > 0) await each(keys.index(client.tenant), without.runs, (id) => textOfRun(id, client));
  if (open.size > 0) await each(keys.threads(client.tenant), without.threads, (id) => textOfThread(id, client));
  return performance.now() > until ? new Set([...used, ...open]) : used;
}

/** All members of a sorted set, in pages. One that changes its position meanwhile is among them, unlike in a walk by positions. */
async function* membersOf(key: string, { core }: TenantClient): AsyncGenerator<readonly string[]> {
  let cursor = '0';
  do {
    const from = cursor;
    const [next, flat] = await core.reach((redis) => redis.zscan(key, from, 'COUNT', pageSize));
    yield pairsOf(flat).map(([id]) => id);
    cursor = next;
  } while (cursor !== '0');
}

/** Undefined: its archive cannot be read. */
async function textOfRun(runId: string, client: TenantClient): Promise<string | undefined> {
  const { core } = client;
  const texts = await reach(client, async ({ redis }) => {
    const hash = await redis.hgetall(core.keys.run(runId));
    return hash['tenant'] === undefined
      ? undefined
      : [...Object.values(hash), ...(await redis.lrange(core.keys.journal(runId), 0, -1))];
  });
  // A journal may be gone that the archive has.
  const archived = await archivedRun(runId, client);
  if (archived === 'unreadable') return undefined;
  return [...(texts ?? []), jsonText(archived ?? null)].join('\n');
}

/** Its log: also what runs left there that are past their time. */
export async function textOfThread(threadId: string, { core, tenant }: TenantClient): Promise<string> {
  const entries = await core.reach((redis) => redis.xrange(core.keys.thread(tenant, threadId, 'log'), '-', '+'));
  return entries.map(([, fields]) => fields.join(' ')).join('\n');
}
