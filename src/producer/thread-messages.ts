import { journalEntry, type JournalEntry } from '../shared/journal.ts';
import { entriesOfJournal } from '../shared/journal-thread.ts';
import { itemsOf, type ThreadItem } from '../shared/thread-items.ts';
import { readThread, threadInfo, type ThreadRange } from '../shared/thread-log.ts';
import type { ThreadPlace } from '../shared/thread-place.ts';
import type { NumberedEntry, ThreadEntry, ThreadRef } from '../shared/thread.ts';

/** `next`: there are more entries; ask with this number as `after`, or as `before` for `desc`. */
export interface MessagesPage {
  readonly messages: readonly ThreadItem[];
  readonly next?: number;
}

/** The last entries of a log: what a run wrote at its end is among them. */
const tailSize = 10;

/**
 * A page of a thread, with what the run that holds it has done since. That is in the journal of the run until its turn ends,
 * so it belongs to the page that reaches the end of the log.
 */
export async function readMessages(place: ThreadPlace, thread: ThreadRef, range: ThreadRange): Promise<MessagesPage> {
  const { order = 'asc', before } = range;
  // The journal is read before the page: what moves from one to the other meanwhile is seen twice, and shown once.
  const live = before === undefined ? await readLive(place, thread) : undefined;
  const { entries, more } = await readThread(place, thread, range);
  const last = entries.at(-1);
  const items = entries.flatMap(({ entry, seq }) => inOrder(order, itemsOf(entry, seq)));
  const reachesEnd = live && (order === 'desc' || !more);
  const done = live && reachesEnd ? live.since(entries).flatMap((entry) => itemsOf(entry, undefined)) : [];
  return {
    messages: order === 'asc' ? [...items, ...done] : [...done.toReversed(), ...items],
    ...(more && last && { next: last.seq }),
  };
}

function inOrder<T>(order: 'asc' | 'desc', items: readonly T[]): readonly T[] {
  return order === 'asc' ? items : items.toReversed();
}

interface Live {
  /** What the run has done and neither these entries nor the end of the log have. */
  since(entries: readonly NumberedEntry[]): readonly ThreadEntry[];
}

async function readLive(place: ThreadPlace, thread: ThreadRef): Promise<Live | undefined> {
  const { redis, keys } = place;
  const { holder } = await threadInfo(place, thread);
  if (holder === undefined) return undefined;
  const { entries: tail } = await readThread(place, thread, { limit: tailSize, order: 'desc' });
  const [lines, [tenant, updatedAt]] = await Promise.all([
    redis.lrange(keys.journal(holder), 0, -1),
    redis.hmget(keys.run(holder), 'tenant', 'updatedAt'),
  ]);
  if (tenant !== thread.tenant || !updatedAt) return undefined;
  const done = entriesOfJournal(holder, lines.flatMap(readLine), updatedAt);
  return {
    since(entries) {
      const kept = lastStep(holder, [...tail, ...entries]);
      return done.filter(({ step = Infinity }) => step > kept);
    },
  };
}

/** A later version of us may write entries that this one does not know. */
function readLine(json: string): JournalEntry[] {
  const parsed = journalEntry.safeParse(JSON.parse(json));
  return parsed.success ? [parsed.data] : [];
}

/** The last step of this run that the log has; 0 for none. */
function lastStep(runId: string, entries: readonly NumberedEntry[]): number {
  const steps = entries.map(({ entry }) => {
    const isStep = entry.t === 'message' && entry.message.role !== 'user' && entry.runId === runId;
    return isStep ? (entry.step ?? Infinity) : 0;
  });
  return Math.max(0, ...steps);
}
