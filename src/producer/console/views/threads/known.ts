import type { ThreadItem } from '../../../../shared/contract/thread/thread-items.ts';

/** Newest first; `next` says where the older ones begin. */
export interface MessagesPage {
  readonly messages: readonly ThreadItem[];
  readonly next?: number;
}

/** What of a thread was read: its end without a gap, oldest first. */
export interface Known {
  readonly items: readonly ThreadItem[];
  /** Where the older ones begin; undefined: there are none. */
  readonly older: number | undefined;
}

/** With the newest page, which was read just now: what was live is as that says. A page that does not reach what is known begins anew. */
export function withNewest(known: Known | undefined, { messages, next }: MessagesPage): Known {
  const items = messages.toReversed();
  const last = known?.items.findLast(({ seq }) => seq !== undefined)?.seq;
  const reaches =
    next === undefined || (last !== undefined && items.some(({ seq }) => seq !== undefined && seq <= last));
  if (!known || !reaches) return { items, older: next };
  return { items: merged(known.items, items), older: known.older };
}

export function withOlder({ items }: Known, { messages, next }: MessagesPage): Known {
  return { items: merged(messages.toReversed(), items), older: next };
}

function merged(known: readonly ThreadItem[], page: readonly ThreadItem[]): readonly ThreadItem[] {
  const fresh = new Set(page.map(({ seq }) => seq));
  const kept = known.filter(({ seq }) => seq !== undefined && !fresh.has(seq));
  return [...kept, ...page].sort((a, b) => (a.seq ?? Infinity) - (b.seq ?? Infinity) || 0);
}
