import { RunError } from '../../base/errors.ts';
import { publicId } from '../../base/ids.ts';
import { loadScript, runScript } from '../script.ts';
import { threadInfo } from './log.ts';
import { threadKeys, type ThreadKeySpace } from './key-space.ts';
import { threadInUse, threadNotFound, type ThreadInfo, type ThreadRef } from '../../contract/thread/thread.ts';
import { defined, pairsOf } from '../../base/collections.ts';

const listScript = loadScript(import.meta.url, './list.lua');
const removeScript = loadScript(import.meta.url, './remove.lua');

/** Runs in the way of a removal that its error names. */
const maxNamedRuns = 10;
const batchSize = 100;
const maxScanned = 2_000;
/** Threads that one call of a purge looks at. */
export const purgedAtOnce = 500;
/** Entries of a full list that are checked when a caller asks for room. */
const sampled = 10;
/** A thread is listed before it is made; an entry without a thread is only dead once it is older than this. */
const settledMs = 300_000;

export interface ThreadQuery {
  readonly cursor?: string;
  readonly limit: number;
  /** Only threads of this agent. */
  readonly agent?: string;
}

/** No cursor means the end. A page may have fewer than were asked for, even none, and still have one. */
export interface ThreadList {
  readonly threads: readonly ThreadInfo[];
  readonly cursor?: string;
}

/** One step of a purge. `kept`: threads that are locked. With a `cursor` there is more to do. */
export interface ThreadPurge {
  readonly removed: number;
  readonly kept: readonly string[];
  readonly cursor?: string;
}

/** A thread in the list of its tenant, by the time of its last change. */
interface ListedThread {
  readonly threadId: string;
  readonly changedAtMs: number;
}

/** Threads of a tenant, last changed first. One call looks at no more than 2,000. Throws `validation` for a cursor of a wrong form. */
export async function listThreads(space: ThreadKeySpace, tenant: string, query: ThreadQuery): Promise<ThreadList> {
  const threads: ThreadInfo[] = [];
  let last = query.cursor === undefined ? undefined : parseListCursor(query.cursor);
  for (let scanned = 0; scanned < maxScanned; scanned += batchSize) {
    const listed = await listedBelow(space, tenant, last);
    const infos = await Promise.all(listed.map((entry) => infoOf(space, tenant, entry)));
    for (const [i, entry] of listed.entries()) {
      last = entry;
      const info = infos[i];
      if (info && (query.agent === undefined || info.agentId === query.agent)) threads.push(info);
      if (threads.length === query.limit) break;
    }
    const isRead = listed.length === 0 || last === listed.at(-1);
    if (listed.length < batchSize && isRead) return { threads };
    if (threads.length === query.limit) break;
  }
  return defined({ threads, cursor: last && listCursor(last) });
}

/** Those that follow one in the list, which may have another position by now. */
async function listedBelow({ redis, keys }: ThreadKeySpace, tenant: string, last: ListedThread | undefined) {
  const key = keys.threads(tenant);
  if (!last) return listedOf(await redis.zrevrange(key, 0, batchSize - 1, 'WITHSCORES'));
  const { changedAtMs, threadId } = last;
  const same = await redis.zrangebyscore(key, changedAtMs, changedAtMs);
  const skip = same.filter((id) => id >= threadId).length;
  return listedOf(await redis.zrevrangebyscore(key, changedAtMs, '-inf', 'WITHSCORES', 'LIMIT', skip, batchSize));
}

async function infoOf(space: ThreadKeySpace, tenant: string, listed: ListedThread): Promise<ThreadInfo | undefined> {
  const thread = { tenant, threadId: listed.threadId };
  try {
    return await threadInfo(space, thread);
  } catch (error) {
    if (!(error instanceof RunError && error.code === 'not_found')) throw error;
    if (listed.changedAtMs < space.clock.now() - settledMs) await unlist(space, thread);
    return undefined;
  }
}

/**
 * Lists a thread that is about to be made. False: the tenant has as many as it may have, and this is none of them. Each refusal
 * removes a few entries of threads that were never made.
 */
export async function listThread(space: ThreadKeySpace, thread: ThreadRef, max: number): Promise<boolean> {
  const { tenant, threadId } = thread;
  const { redis, keys, clock } = space;
  const key = keys.threads(tenant);
  const doing = `listing of thread ${threadId}`;
  const list = async () => (await runScript(redis, listScript, [key], [threadId, clock.now(), max], { doing })) === 1;
  if (await list()) return true;
  const some = listedOf(await redis.zrandmember(key, sampled, 'WITHSCORES'));
  const settled = some.filter(({ changedAtMs }) => changedAtMs < clock.now() - settledMs);
  const made = await Promise.all(settled.map((one) => redis.exists(keys.thread(tenant, one.threadId, 'manifest'))));
  const unmade = settled.filter((_, i) => made[i] === 0);
  await Promise.all(unmade.map((one) => unlist(space, { tenant, threadId: one.threadId })));
  return unmade.length > 0 && (await list());
}

export async function removeThread(space: ThreadKeySpace, thread: ThreadRef): Promise<void> {
  const reply = await remove(space, thread);
  if (reply[0] === 0) throw threadNotFound(thread.threadId);
  const [code, ...runs] = reply;
  if (code === 2) throw threadInUse(thread.threadId, runs);
}

type RemoveReply = readonly [0] | readonly [1] | readonly [2, ...string[]];

async function remove(space: ThreadKeySpace, thread: ThreadRef): Promise<RemoveReply> {
  const doing = `removal of thread ${thread.threadId}`;
  const own = threadKeys(space, thread);
  const reply = (await runScript(space.redis, removeScript, own, [maxNamedRuns], { doing })) as RemoveReply;
  if (reply[0] === 1) await unlist(space, thread);
  return reply;
}

/** A run that enters the thread meanwhile makes it again, and it has to be listed then. */
async function unlist({ redis, keys, clock }: ThreadKeySpace, { tenant, threadId }: ThreadRef): Promise<void> {
  await redis.zrem(keys.threads(tenant), threadId);
  const isBack = await redis.exists(keys.thread(tenant, threadId, 'manifest'));
  if (isBack === 1) await redis.zadd(keys.threads(tenant), 'NX', clock.now(), threadId);
}

/**
 * Deletes threads of a tenant, at most 500 with one call, until an answer has no cursor. Those that change after the first
 * call are kept. Throws `validation` for a cursor of a wrong form.
 */
export async function purgeThreads(space: ThreadKeySpace, tenant: string, cursor?: string): Promise<ThreadPurge> {
  const { redis, keys, clock } = space;
  const { untilMs, last } = cursor === undefined ? { untilMs: clock.now(), last: undefined } : parsePurgeCursor(cursor);
  const key = keys.threads(tenant);
  const same = last ? await redis.zrangebyscore(key, last.changedAtMs, last.changedAtMs) : [];
  const skip = same.filter((id) => id <= (last?.threadId ?? '')).length;
  const from = last?.changedAtMs ?? '-inf';
  const listed = listedOf(await redis.zrangebyscore(key, from, untilMs, 'WITHSCORES', 'LIMIT', skip, purgedAtOnce));
  const replies: RemoveReply[] = [];
  for (let at = 0; at < listed.length; at += batchSize) {
    const some = listed.slice(at, at + batchSize);
    replies.push(...(await Promise.all(some.map(({ threadId }) => remove(space, { tenant, threadId })))));
  }
  const end = listed.at(-1);
  return defined({
    removed: replies.filter(([code]) => code === 1).length,
    kept: listed.filter((_, i) => replies[i]?.[0] === 2).map(({ threadId }) => threadId),
    cursor: end && listed.length === purgedAtOnce ? `${untilMs}-${listCursor(end)}` : undefined,
  });
}

function listedOf(flat: readonly string[]): ListedThread[] {
  return pairsOf(flat).map(([threadId, at]) => ({ threadId, changedAtMs: Number(at) }));
}

function listCursor({ changedAtMs, threadId }: ListedThread): string {
  return `${changedAtMs}-${threadId}`;
}

function parseListCursor(cursor: string): ListedThread {
  const [, at, threadId] = /^(\d{1,16})-(.+)$/.exec(cursor) ?? [];
  if (at === undefined || !publicId.safeParse(threadId).success) throw wrongCursor();
  return { changedAtMs: Number(at), threadId: threadId as string };
}

function parsePurgeCursor(cursor: string): { readonly untilMs: number; readonly last: ListedThread } {
  const [, until, rest] = /^(\d{1,16})-(.+)$/.exec(cursor) ?? [];
  if (until === undefined) throw wrongCursor();
  return { untilMs: Number(until), last: parseListCursor(rest as string) };
}

function wrongCursor(): RunError {
  const message = 'is not a cursor of this list';
  return new RunError('validation', message, { details: [{ path: 'cursor', message }] });
}
