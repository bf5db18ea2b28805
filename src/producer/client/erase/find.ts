import { isRecord, jsonText } from '../../../shared/base/json.ts';
import { legibleRecord } from '../../../shared/contract/run-record.ts';
import { isTerminalStatus, type RunRecord } from '../../../shared/contract/run.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { inGroups } from '../read-run.ts';

/** A run as an erasure sees it: with what it is tied to, and how much of it there is. */
export interface ErasableRun {
  readonly runId: string;
  readonly record: Readonly<
    Pick<RunRecord, 'createdAt' | 'endedAt' | 'queue' | 'segment' | 'parent' | 'request' | 'status'>
  >;
  /** Has it not ended, as far as Redis knows? */
  readonly isOpen: boolean;
  readonly isArchived: boolean;
  readonly inRedis: boolean;
  readonly journalEntries: number;
  readonly events: number;
  readonly progressNotes: number;
  readonly children: readonly string[];
  /** SHA-256 of files that it made or was given, and ids of uploaded ones. */
  readonly media: readonly string[];
  readonly files: readonly string[];
}

/** A run of the tenant, in Redis or in the archive. Undefined: there is none. */
export async function findErasable(runId: string, client: TenantClient): Promise<ErasableRun | undefined> {
  const { core, tenant } = client;
  const { keys } = core;
  const [hash, journal, decisions, events, progressNotes] = await reach(client, ({ redis }) =>
    Promise.all([
      redis.hgetall(keys.run(runId)),
      redis.lrange(keys.journal(runId), 0, -1),
      redis.hvals(keys.decisions(runId)),
      redis.xlen(keys.events(runId)),
      redis.hlen(keys.progress(tenant, runId)),
    ]),
  );
  const inRedis = hash['tenant'] === tenant;
  if (hash['tenant'] !== undefined && !inRedis) return undefined;
  const archived = await core.archive.read(tenant, runId);
  const record = inRedis ? legibleRecord(hash) : archivedRecord(archived);
  if (!record) return undefined;
  const text = [...Object.values(hash), ...journal, ...decisions, jsonText(archived ?? null)].join('\n');
  return {
    runId,
    record,
    isOpen: inRedis && !isTerminalStatus(record.status),
    isArchived: archived !== undefined,
    inRedis,
    journalEntries: inRedis ? journal.length : 0,
    events: inRedis ? events : 0,
    progressNotes,
    children: await childrenOf(runId, record, text, client),
    ...refersTo(text),
  };
}

/** What the texts of a run refer to. The form of an uploaded file is that of a part of an input, which no quoted text has. */
export function refersTo(text: string): { readonly media: readonly string[]; readonly files: readonly string[] } {
  const media = [...text.matchAll(/sha256-([0-9a-f]{64})/g)].map(([, digest = '']) => digest);
  const files = [...text.matchAll(/"from":"file","id":"(file-[0-9A-Z]{26})"/g)].map(([, id = '']) => id);
  return { media: [...new Set(media)], files: [...new Set(files)] };
}

function archivedRecord(archived: unknown): RunRecord | undefined {
  if (!isRecord(archived) || !isRecord(archived['record'])) return undefined;
  const { record } = archived;
  return typeof record['runId'] === 'string' && isRecord(record['request']) ? (record as RunRecord) : undefined;
}

const ids = /\b[0-9A-HJKMNP-TV-Z]{26}\b/g;
const pageSize = 500;
/** A child of a run that was redriven, or that ended late, is listed a little after its end. */
const slackMs = 60_000;

/** The runs that worked for one: those that its texts name, and those of the index of its time. */
async function childrenOf(runId: string, record: RunRecord, text: string, client: TenantClient) {
  const { core, tenant } = client;
  const named = new Set([...text.matchAll(ids)].map(([id]) => id));
  named.delete(runId);
  const found = await inGroups([...named], async (id) => ((await parentOf(id, client)) === runId ? [id] : []));
  const children = new Set(found.flat());
  const from = Date.parse(record.createdAt);
  const to = record.endedAt === undefined ? Date.now() : Date.parse(record.endedAt) + slackMs;
  for (let offset = 0; ; offset += pageSize) {
    const page = await reach(client, async ({ redis }) => {
      const inTime = await redis.zrangebyscore(core.keys.index(tenant), from, to, 'LIMIT', offset, pageSize);
      const parents = await Promise.all(inTime.map((id) => redis.hget(core.keys.run(id), 'parentRunId')));
      return inTime.map((id, i) => [id, parents[i]] as const);
    });
    for (const [id, parent] of page) if (parent === runId) children.add(id);
    if (page.length < pageSize) return [...children];
  }
}

async function parentOf(runId: string, { core, tenant }: TenantClient): Promise<string | undefined> {
  const [parent, owner] = await core.reach((redis) => redis.hmget(core.keys.run(runId), 'parentRunId', 'tenant'));
  if (owner) return owner === tenant ? (parent ?? undefined) : undefined;
  return archivedRecord(await core.archive.read(tenant, runId))?.parent?.runId;
}

/** Runs that a thread knows: those of its log, and those that were in it lately. Empty where there is no such thread. */
export async function runsOfThread(threadId: string, client: TenantClient): Promise<readonly string[]> {
  const { core, tenant } = client;
  const part = (name: Parameters<typeof core.keys.thread>[2]) => core.keys.thread(tenant, threadId, name);
  const [claims, left, waiters, owner] = await core.reach((redis) =>
    Promise.all([
      redis.hkeys(part('claims')),
      redis.zrange(part('left'), 0, '-1'),
      redis.zrange(part('waiters'), 0, '-1'),
      redis.hget(part('manifest'), 'lockOwner'),
    ]),
  );
  const named = new Set([...claims, ...left, ...waiters, ...(owner ? [owner] : [])]);
  let from = '-';
  for (;;) {
    const start = from;
    const page = await core.reach((redis) => redis.xrange(part('log'), start, '+', 'COUNT', pageSize));
    for (const [, fields] of page)
      for (const [, id] of fields.join(' ').matchAll(/"runId":"([0-9A-Z]{26})"/g)) if (id) named.add(id);
    if (page.length < pageSize) break;
    from = `(${page.at(-1)?.[0] ?? ''}`;
  }
  return [...named].filter((id) => /^[0-9A-HJKMNP-TV-Z]{26}$/.test(id));
}

/** Is there anything of this thread? Entries of its log; undefined: no. */
export async function threadEntries(threadId: string, { core, tenant }: TenantClient): Promise<number | undefined> {
  const [log, ...others] = await core.reach((redis) =>
    Promise.all([
      redis.xlen(core.keys.thread(tenant, threadId, 'log')),
      redis.exists(core.keys.thread(tenant, threadId, 'manifest')),
      redis.exists(core.keys.conversation(tenant, threadId)),
    ]),
  );
  return log > 0 || others.some((there) => there === 1) ? log : undefined;
}
