import { itemsOf, type ThreadItem } from '../shared/thread-items.ts';
import { readThread, type ThreadRange } from '../shared/thread-log.ts';
import { holderOf } from '../shared/thread-holder.ts';
import type { ThreadPlace } from '../shared/thread-place.ts';
import type { ThreadRef } from '../shared/thread.ts';
import { readLiveTurn } from './live-turn.ts';

/** `next`: there are more entries; ask with this number as `after`, or as `before` for `desc`. */
export interface MessagesPage {
  readonly messages: readonly ThreadItem[];
  readonly next?: number;
}

/**
 * A page of a thread as it would be if the run that holds it ended now. What that run has done is in its journal until its turn
 * ends, so it belongs to the page that reaches the end of the log; of a turn that is to leave no trace nothing is shown.
 */
export async function readMessages(place: ThreadPlace, thread: ThreadRef, range: ThreadRange): Promise<MessagesPage> {
  const { order = 'asc', before = Infinity } = range;
  const holder = await holderOf(place, thread);
  const end = holder?.rolledBack ? holder.began + 1 : Infinity;
  // The journal is read before the page: what moves from one to the other meanwhile is seen twice, and shown once.
  const live =
    holder && end === Infinity && before === Infinity ? await readLiveTurn(place, thread, holder) : undefined;
  const until = Math.min(before, end);
  const { entries, more } = await readThread(place, thread, {
    ...range,
    ...(until < Infinity && { before: until }),
  });
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
