import { jsonText } from '../../base/json.ts';
import { loadScript, runScript } from '../script.ts';
import { threadContext, type ThreadContext } from '../../contract/thread/thread-context.ts';
import type { ThreadLock } from './lock.ts';
import { readManifest, threadKeys, type ThreadKeySpace } from './key-space.ts';
import {
  manifestFromHash,
  onceKey,
  patchFields,
  readThreadEntry,
  threadNotFound,
  type NumberedEntry,
  type ThreadEntry,
  type ThreadInfo,
  type ThreadPatch,
  type ThreadRef,
  maxThreadEvents,
  threadEventVersion,
  type ThreadEvent,
  type ThreadEventBody,
  type ThreadEventOrigin,
  type ThreadEventsPage,
  type ThreadEventsRange,
} from '../../contract/thread/thread.ts';
import { defined } from '../../base/collections.ts';

const appendScript = loadScript(import.meta.url, './append.lua');
const updateScript = loadScript(import.meta.url, './update.lua');

/** `rolledBack`: nothing was written, and what the turn wrote before is removed. */
export type Appended =
  | { readonly kind: 'ok'; readonly seq: number; readonly rolledBack: boolean }
  | { readonly kind: 'fenced' };

/** Which entries. Numbers as in `seq`, both ends excluded. */
export interface ThreadRange {
  readonly after?: number | undefined;
  readonly before?: number | undefined;
  readonly limit: number;
  /** Default `asc`: oldest first. */
  readonly order?: 'asc' | 'desc';
}

/** `more`: the range has others beyond the last of these. */
export interface ThreadPage {
  readonly entries: readonly NumberedEntry[];
  readonly more: boolean;
}

/** Entries that one round trip reads: they can be large. */
const readAtOnce = 200;

/** {@link ThreadStore.append}. The thread counts as changed even when nothing is given. */
export async function appendToThread(
  space: ThreadKeySpace,
  lock: ThreadLock,
  op: string,
  entries: readonly ThreadEntry[],
  patch: ThreadPatch = {},
): Promise<Appended> {
  const { redis, keys, clock } = space;
  const atMs = clock.now();
  const fields = Object.entries(patchFields(patch)).flat();
  const args = [
    lock.runId,
    lock.fence,
    op,
    new Date(atMs).toISOString(),
    fields.length,
    ...fields,
    ...entries.flatMap((entry) => [markOf(entry), jsonText(entry)]),
  ];
  const doing = `write to thread ${lock.threadId}`;
  const reply = (await runScript(redis, appendScript, threadKeys(space, lock), args, { doing })) as
    | readonly [0]
    | readonly [1 | 2, number];
  if (reply[0] === 0) return { kind: 'fenced' };
  if (reply[0] === 1) await redis.zadd(keys.threads(lock.tenant), 'GT', atMs, lock.threadId);
  return { kind: 'ok', seq: reply[1], rolledBack: reply[0] === 2 };
}

function markOf(entry: ThreadEntry): string {
  const key = onceKey(entry);
  if (key !== undefined) return `U${key}`;
  if (entry.t === 'message') return 'N';
  return entry.t === 'summary' ? 'S' : 'R';
}

export async function updateThread(space: ThreadKeySpace, thread: ThreadRef, patch: ThreadPatch): Promise<void> {
  const { redis, keys, clock } = space;
  const atMs = clock.now();
  const fields = { ...patchFields(patch), updatedAt: new Date(atMs).toISOString() };
  const [manifest = ''] = threadKeys(space, thread);
  const doing = `change of thread ${thread.threadId}`;
  const reply = await runScript(redis, updateScript, [manifest], Object.entries(fields).flat(), { doing });
  if (reply === 0) throw threadNotFound(thread.threadId);
  await redis.zadd(keys.threads(thread.tenant), 'GT', atMs, thread.threadId);
}

export async function threadInfo(space: ThreadKeySpace, thread: ThreadRef): Promise<ThreadInfo> {
  const { redis, keys } = space;
  const [hash, waiting] = await Promise.all([
    readManifest(space, thread),
    redis.zcard(keys.thread(thread.tenant, thread.threadId, 'waiters')),
  ]);
  const { lockOwner, suspendedBy, seq } = hash;
  return {
    ...manifestFromHash(hash),
    ...defined({ lockOwner: lockOwner || undefined, suspendedBy: suspendedBy || undefined }),
    waiting,
    lastSeq: Number(seq),
  };
}

export async function readThread(space: ThreadKeySpace, thread: ThreadRef, range: ThreadRange): Promise<ThreadPage> {
  const { redis, keys } = space;
  const { after = 0, before, limit, order = 'asc' } = range;
  const log = keys.thread(thread.tenant, thread.threadId, 'log');
  const entries: NumberedEntry[] = [];
  let [from, to] = [`(${after}-0`, before === undefined ? '+' : `(${before}-0`];
  await readManifest(space, thread);
  while (entries.length <= limit) {
    const count = Math.min(readAtOnce, limit + 1 - entries.length);
    const found =
      order === 'asc'
        ? await redis.xrange(log, from, to, 'COUNT', count)
        : await redis.xrevrange(log, to, from, 'COUNT', count);
    for (const [id, [, json = '']] of found) {
      const seq = Number.parseInt(id, 10);
      entries.push({ seq, entry: readThreadEntry(json, thread, seq) });
    }
    const last = entries.at(-1);
    if (found.length < count || !last) break;
    if (order === 'asc') from = `(${last.seq}-0`;
    else to = `(${last.seq}-0`;
  }
  return { entries: entries.slice(0, limit), more: entries.length > limit };
}

/** {@link ThreadStore.context}: from the last summary on. */
export async function readContext(space: ThreadKeySpace, thread: ThreadRef, owner?: string): Promise<ThreadContext> {
  const { redis, keys } = space;
  const hash = await readManifest(space, thread);
  const manifest = manifestFromHash(hash);
  const isLockOwner = owner !== undefined && hash['lockOwner'] === owner;
  const lastNumber = Number(hash[isLockOwner ? 'lockedFromSeq' : 'seq']);
  const summarySeq = Number(hash[isLockOwner ? 'lockedSummarySeq' : 'summarySeq']);
  const log = keys.thread(thread.tenant, thread.threadId, 'log');
  const [at] = summarySeq === 0 ? [] : await redis.xrange(log, `${summarySeq}-0`, `${summarySeq}-0`);
  const summary = at && { seq: summarySeq, entry: readThreadEntry(at[1][1] ?? '', thread, summarySeq) };
  const after = summary?.entry.t === 'summary' ? summary.entry.upTo : 0;
  const range = { after, before: isLockOwner ? lastNumber + 1 : undefined, limit: Number.MAX_SAFE_INTEGER };
  const { entries } = await readThread(space, thread, range);
  return threadContext(manifest, summary ? [summary, ...entries] : entries, lastNumber);
}

const eventScript = loadScript(import.meta.url, './append-event.lua');

/** Adds an event to a thread; to one that is gone, nothing. `op` is unique per event: a repeat right after it changes nothing. */
export async function appendThreadEvent(
  { redis, keys, clock }: ThreadKeySpace,
  { tenant, threadId }: ThreadRef,
  { agentId, runId }: ThreadEventOrigin,
  op: string,
  body: ThreadEventBody,
): Promise<void> {
  const timestamp = new Date(clock.now()).toISOString();
  const event = { v: threadEventVersion, timestamp, threadId, agentId, runId, ...body };
  const own = (['manifest', 'events'] as const).map((part) => keys.thread(tenant, threadId, part));
  await runScript(redis, eventScript, own, [op, maxThreadEvents, jsonText(event)], {
    doing: `event of thread ${threadId}`,
  });
}

export async function readThreadEvents(
  space: ThreadKeySpace,
  thread: ThreadRef,
  { after = 0, limit }: ThreadEventsRange,
): Promise<ThreadEventsPage> {
  const { redis, keys } = space;
  const log = keys.thread(thread.tenant, thread.threadId, 'events');
  await readManifest(space, thread);
  const found = await redis.xrange(log, `(${after}-0`, '+', 'COUNT', limit + 1);
  const events = found.map(([, [, json = '']]) => JSON.parse(json) as ThreadEvent);
  return { events: events.slice(0, limit), more: events.length > limit };
}
