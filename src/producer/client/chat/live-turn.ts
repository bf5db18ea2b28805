import { journalEntry, type JournalEntry } from '../../../shared/contract/journal/journal.ts';
import { turnOfJournal } from '../../../shared/contract/journal/fold.ts';
import type { ThreadLockOwner, ThreadKeySpace } from '../../../shared/state/thread/key-space.ts';
import { readContext, readThread } from '../../../shared/state/thread/log.ts';
import { pastOf } from '../../../shared/contract/thread/thread-context.ts';
import {
  isPrompt,
  onceKey,
  type NumberedEntry,
  type ThreadEntryOf,
  type ThreadRef,
} from '../../../shared/contract/thread/thread.ts';
import {
  entriesOfTurn,
  withoutLogged,
  type TurnOrigin,
  type TurnMessages,
} from '../../../shared/contract/thread/turn-log.ts';

/** The turn of the lock owner of a thread, before it is written there. */
export interface LiveTurn {
  /** The messages that it would write now, unless these entries or the end of the log have it. */
  since(entries: readonly NumberedEntry[]): readonly ThreadEntryOf<'message'>[];
}

/** The last entries of a log: how the turn of a run ended is among them, at most one summary behind it. */
const tailSize = 2;

/** Undefined when there is nothing of it to be seen. */
export async function readLiveTurn(
  space: ThreadKeySpace,
  thread: ThreadRef,
  lockOwner: ThreadLockOwner,
): Promise<LiveTurn | undefined> {
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
  return { since: (shown) => ([...tail, ...shown].some(isEndOf(lockOwner)) ? [] : written) };
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
async function writtenBy(
  space: ThreadKeySpace,
  thread: ThreadRef,
  turnPlace: TurnOrigin,
  turn: TurnMessages,
): Promise<readonly ThreadEntryOf<'message'>[]> {
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
