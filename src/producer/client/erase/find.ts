import { jsonText } from '../../../shared/base/json.ts';
import type { ArchivedRun } from '../../../shared/contract/archive/archived-run.ts';
import type { Labelled } from '../../../shared/contract/archive/labels.ts';
import { quarantineQueue } from '../../../shared/contract/queues.ts';
import { legibleRecord, legibleRequest } from '../../../shared/contract/run-record.ts';
import { isTerminalStatus, type RunRecord } from '../../../shared/contract/run.ts';
import { queueOf } from '../../../shared/state/run/create-runs.ts';
import { reach, type TenantClient } from '../client-core.ts';
import { inGroups } from '../read-run.ts';
import { archivedRun, listedAtMs } from './archived.ts';

/** A run as an erasure sees it: with what it is tied to, and how much of it there is. */
export interface ErasableRun {
  readonly runId: string;
  readonly record: FoundRecord;
  readonly labelled: Labelled;
  /** Where it can have jobs. */
  readonly queues: readonly string[];
  /** Has it not ended, as far as Redis knows? */
  readonly isOpen: boolean;
  readonly isArchived: boolean;
  readonly inRedis: boolean;
  readonly journalEntries: number;
  readonly events: number;
  readonly progressNotes: number;
  readonly children: readonly string[];
  /** The run, where its record is in the archive alone and cannot be read, and runs of which only that may say that they worked for it. */
  readonly unreadable: readonly string[];
  /** SHA-256 of files that it made or was given, and ids of uploaded ones. */
  readonly media: readonly string[];
  readonly files: readonly string[];
}

type FoundRecord = Readonly<Pick<RunRecord, 'createdAt' | 'endedAt' | 'segment' | 'parent' | 'request'>> &
  Partial<Pick<RunRecord, 'lastSequence'>>;

/**
 * A run of the tenant, in Redis or in the archive. Undefined: there is none. One that cannot be read is found by its id alone, and so is
 * one that is past its time, for notes and results of its tools may be left.
 */
export async function findErasable(
  runId: string,
  client: TenantClient,
  parents: KnownParents = new Map(),
): Promise<ErasableRun | undefined> {
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
  const archived = await archivedRun(runId, client);
  const known = inRedis ? legibleRecord(hash) : readable(archived)?.record;
  const isPast = !known && archived === undefined;
  if (isPast && progressNotes === 0 && (await listedAtMs(runId, client)) === undefined) return undefined;
  const record = known ?? (await unknownRecord(runId, client));
  const kept = jsonText(readable(archived) ?? null);
  const text = [...Object.values(hash), ...journal, ...decisions, kept].join('\n');
  // Those of one that is past its time are, too.
  const { children, unreadable } = isPast ? none : await childrenOf(runId, record, { text, archived, parents }, client);
  return {
    runId,
    record,
    labelled: { runId, metadata: record.request.metadata, changed: readable(archived)?.changedLabels },
    // One in quarantine was in its own queue before.
    queues: known ? [...new Set([known.queue, queueOf(known.request)])] : await allQueues(client),
    isOpen: inRedis && known !== undefined && !isTerminalStatus(known.status),
    isArchived: archived !== undefined,
    inRedis,
    journalEntries: inRedis ? journal.length : 0,
    events: inRedis ? events : 0,
    progressNotes,
    children,
    unreadable: known || isPast ? unreadable : [runId, ...unreadable],
    ...refersTo(text),
  };
}

const none = { children: [], unreadable: [] };

type Archived = Awaited<ReturnType<typeof archivedRun>>;

function readable(archived: Archived): ArchivedRun | undefined {
  return archived === 'unreadable' ? undefined : archived;
}

/** More segments than most runs have. */
const likelySegments = 10;

/** As much as is known of a run whose only record cannot be read. */
async function unknownRecord(runId: string, client: TenantClient): Promise<FoundRecord> {
  const createdAt = new Date((await listedAtMs(runId, client)) ?? 0).toISOString();
  return { createdAt, segment: likelySegments, request: legibleRequest({}) };
}

async function allQueues({ core }: TenantClient): Promise<readonly string[]> {
  return [...new Set([...(await core.reach((redis) => core.directory.names(redis))), quarantineQueue])];
}

/** What the texts of a run refer to. The form of an uploaded file is that of a part of an input, which no quoted text has. */
export function refersTo(text: string): { readonly media: readonly string[]; readonly files: readonly string[] } {
  const media = [...text.matchAll(/sha256-([0-9a-f]{64})/g)].map(([, digest = '']) => digest);
  const files = [...text.matchAll(/"from":"file","id":"(file-[0-9A-Z]{26})"/g)].map(([, id = '']) => id);
  return { media: [...new Set(media)], files: [...new Set(files)] };
}

/** For whom runs of a tenant work, as far as it was asked for: that never changes. */
export type KnownParents = Map<string, string | undefined>;

/** About 20 MB. */
const maxKnownParents = 200_000;

const ids = /\b[0-9A-HJKMNP-TV-Z]{26}\b/g;
const pageSize = 500;
/** A child of a run that was redriven, or that ended late, is listed a little after its end. */
const slackMs = 60_000;

/**
 * The runs that worked for one: those that its texts name, and those of the index of its time. `unreadable`: named ones that are in the
 * archive alone and cannot be read, of which it is not known.
 */
async function childrenOf(
  runId: string,
  record: FoundRecord,
  { text, archived, parents }: { readonly text: string; readonly archived: Archived; readonly parents: KnownParents },
  client: TenantClient,
) {
  const { core, tenant } = client;
  const named = new Set([...text.matchAll(ids)].map(([id]) => id));
  named.delete(runId);
  const parentsOfNamed = await inGroups([...named], async (id) => [id, await parentOf(id, client)] as const);
  const listed = new Set(readable(archived)?.children.map((child) => child.runId));
  const isChild = (id: string, parent: Parent) => parent === runId || (parent === unknown && listed.has(id));
  const children = new Set(parentsOfNamed.flatMap(([id, parent]) => (isChild(id, parent) ? [id] : [])));
  const unreadable = parentsOfNamed.flatMap(([id, parent]) => (parent === unknown && !listed.has(id) ? [id] : []));
  const from = Date.parse(record.createdAt);
  const to = record.endedAt === undefined ? Date.now() : Date.parse(record.endedAt) + slackMs;
  for (let offset = 0; ; offset += pageSize) {
    const page = await reach(client, async ({ redis }) => {
      const inTime = await redis.zrangebyscore(core.keys.index(tenant), from, to, 'LIMIT', offset, pageSize);
      if (parents.size > maxKnownParents) parents.clear();
      const fresh = inTime.filter((id) => !parents.has(id));
      const found = await Promise.all(fresh.map((id) => redis.hmget(core.keys.run(id), 'parentRunId', 'tenant')));
      // One that is listed may get its record a moment later.
      for (const [i, [parent, owner] = []] of found.entries())
        if (owner) parents.set(fresh[i] ?? '', parent ?? undefined);
      return inTime;
    });
    for (const id of page) if (parents.get(id) === runId) children.add(id);
    if (page.length < pageSize) return { children: [...children], unreadable };
  }
}

const unknown = Symbol('a record that cannot be read has it');
type Parent = string | typeof unknown | undefined;

async function parentOf(runId: string, client: TenantClient): Promise<Parent> {
  const { core, tenant } = client;
  const [parent, owner] = await core.reach((redis) => redis.hmget(core.keys.run(runId), 'parentRunId', 'tenant'));
  if (owner) return owner === tenant ? (parent ?? undefined) : undefined;
  const archived = await archivedRun(runId, client);
  return archived === 'unreadable' ? unknown : archived?.record.parent?.runId;
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
