import { defined } from '../../shared/base/collections.ts';
import { itemsOf, type ThreadItem } from '../../shared/contract/thread/thread-items.ts';
import { readThread, type ThreadRange, readContext } from '../../shared/state/thread/log.ts';
import { lockOwnerOf, type ThreadKeySpace, type ThreadLockOwner } from '../../shared/state/thread/key-space.ts';
import {
  type NumberedEntry,
  type ThreadEntryOf,
  type ThreadRef,
  isPrompt,
  onceKey,
} from '../../shared/contract/thread/thread.ts';
import { journalEntry, type JournalEntry } from '../../shared/contract/journal/journal.ts';
import { turnOfJournal } from '../../shared/contract/journal/fold.ts';
import { pastOf } from '../../shared/contract/thread/thread-context.ts';
import {
  entriesOfTurn,
  withoutLogged,
  type TurnOrigin,
  type TurnMessages,
} from '../../shared/contract/thread/turn-log.ts';

/** `next`: there are more messages; ask with this number as `after`, or as `before` for `desc`. */
export interface MessagesPage {
  readonly messages: readonly ThreadItem[];
  readonly next?: number;
}

/**
 * A page of a thread as if its lock owner ended now. What that run has done is in its journal until its turn ends, so it belongs to
 * the page that reaches the end of the log; of a turn that will be rolled back nothing is shown.
 */
export async function readMessages(
  space: ThreadKeySpace,
  thread: ThreadRef,
  range: ThreadRange,
): Promise<MessagesPage> {
  const { order = 'asc', before = Infinity } = range;
  const lockOwner = await lockOwnerOf(space, thread);
  const end = lockOwner?.rolledBack ? lockOwner.began + 1 : Infinity;
  // The journal is read before the page: what moves from one to the other meanwhile is seen twice, and shown once.
  const live =
    lockOwner && end === Infinity && before === Infinity ? await readLiveTurn(space, thread, lockOwner) : undefined;
  const until = Math.min(before, end);
  const page = await messagesIn(space, thread, defined({ ...range, before: until < Infinity ? until : undefined }));
  const { messages, more, passed } = page;
  const last = messages.at(-1);
  const items = messages.flatMap(({ entry, seq }) => inOrder(order, itemsOf(entry, seq)));
  const reachesEnd = live && (order === 'desc' || !more);
  const done = live && reachesEnd ? live(passed).flatMap((entry) => itemsOf(entry, undefined)) : [];
  return defined({
    messages: order === 'asc' ? [...items, ...done] : [...done.toReversed(), ...items],
    next: more && last ? last.seq : undefined,
  });
}

/** `passed`: these messages and the other entries between them. `more`: the range has messages beyond the last. */
async function messagesIn(space: ThreadKeySpace, thread: ThreadRef, range: ThreadRange) {
  const { limit, order = 'asc' } = range;
  const passed: NumberedEntry[] = [];
  const messages: { readonly seq: number; readonly entry: ThreadEntryOf<'message'> }[] = [];
  for (let more = true; more && messages.length <= limit;) {
    const from = passed.at(-1)?.seq;
    const rest = from === undefined ? range : { ...range, [order === 'asc' ? 'after' : 'before']: from };
    const page = await readThread(space, thread, { ...rest, limit: limit + 1 - messages.length });
    for (const { seq, entry } of page.entries) if (entry.t === 'message') messages.push({ seq, entry });
    passed.push(...page.entries);
    ({ more } = page);
  }
  return { messages: messages.slice(0, limit), passed, more: messages.length > limit };
}

function inOrder<T>(order: 'asc' | 'desc', items: readonly T[]): readonly T[] {
  return order === 'asc' ? items : items.toReversed();
}

/** The last entries of a log: how the turn of a run ended is among them, at most one summary behind it. */
const tailSize = 2;

/**
 * The turn of the lock owner of a thread, before it is written there: the messages that it would write now, unless the entries
 * given or the end of the log have it. Undefined when there is nothing of it to be seen.
 */
async function readLiveTurn(space: ThreadKeySpace, thread: ThreadRef, lockOwner: ThreadLockOwner) {
  const { redis, keys } = space;
  const { runId, began } = lockOwner;
  const { entries: tail } = await readThread(space, thread, { limit: tailSize, order: 'desc' });
  const [lines, [tenant, updatedAt]] = await Promise.all([
    redis.lrange(keys.journal(runId), 0, -1),
    redis.hmget(keys.run(runId), 'tenant', 'updatedAt'),
  ]);
  if (tenant !== thread.tenant || !updatedAt || lines.length === 0) return undefined;
  const turn = turnOfJournal(lines.flatMap(readLine));
  const written = await writtenBy(space, thread, { runId, at: updatedAt, began }, turn);
  return (shown: readonly NumberedEntry[]) => ([...tail, ...shown].some(isEndOf(lockOwner)) ? [] : written);
}

/** A later version of us may write entries that this one does not know. */
function readLine(json: string): JournalEntry[] {
  const parsed = journalEntry.safeParse(JSON.parse(json));
  return parsed.success ? [parsed.data] : [];
}

/** A turn is written at once, and how it ended is the last of it but a summary. */
function isEndOf({ runId, began }: ThreadLockOwner): (entry: NumberedEntry) => boolean {
  return ({ seq, entry }) => entry.t === 'result' && entry.runId === runId && seq > began;
}

/** The messages that its worker would write if the turn ended now. */
async function writtenBy(space: ThreadKeySpace, thread: ThreadRef, turnPlace: TurnOrigin, turn: TurnMessages) {
  const { runId, began } = turnPlace;
  const messages = entriesOfTurn(turnPlace, turn, 'open').filter((entry) => entry.t === 'message');
  const { entries: firsts } = await readThread(space, thread, { after: began, limit: 1 });
  if (firsts.some(({ entry }) => entry.runId === runId && isPrompt(entry))) return messages;
  const past = pastOf(await readContext(space, thread, runId), runId);
  return await unwritten(space, thread, withoutLogged(messages, past.logged));
}

/** A redriven run has written the beginning of its turn before. */
async function unwritten(
  { redis, keys }: ThreadKeySpace,
  { tenant, threadId }: ThreadRef,
  messages: readonly ThreadEntryOf<'message'>[],
): Promise<readonly ThreadEntryOf<'message'>[]> {
  const named = messages.flatMap((entry) => onceKey(entry) ?? []);
  if (named.length === 0) return messages;
  const numbers = await redis.hmget(keys.thread(tenant, threadId, 'once'), ...named);
  const known = new Set(named.filter((_, at) => numbers[at] !== null));
  return messages.filter((entry) => !known.has(onceKey(entry) ?? ''));
}
