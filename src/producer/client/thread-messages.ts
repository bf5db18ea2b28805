import { defined } from '../../shared/base/defined.ts';
import { itemsOf, type ThreadItem } from '../../shared/contract/thread/thread-items.ts';
import { readThread, type ThreadRange } from '../../shared/state/thread/log.ts';
import { lockOwnerOf, type ThreadKeySpace } from '../../shared/state/thread/key-space.ts';
import type { NumberedEntry, ThreadEntryOf, ThreadRef } from '../../shared/contract/thread/thread.ts';
import { readLiveTurn } from './chat/live-turn.ts';

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
  const done = live && reachesEnd ? live.since(passed).flatMap((entry) => itemsOf(entry, undefined)) : [];
  return defined({
    messages: order === 'asc' ? [...items, ...done] : [...done.toReversed(), ...items],
    next: more && last ? last.seq : undefined,
  });
}

interface MessageEntry {
  readonly seq: number;
  readonly entry: ThreadEntryOf<'message'>;
}

/** `passed`: these messages and the other entries between them. `more`: the range has messages beyond the last. */
async function messagesIn(
  space: ThreadKeySpace,
  thread: ThreadRef,
  range: ThreadRange,
): Promise<{ messages: readonly MessageEntry[]; passed: readonly NumberedEntry[]; more: boolean }> {
  const { limit, order = 'asc' } = range;
  const passed: NumberedEntry[] = [];
  const messages: MessageEntry[] = [];
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
