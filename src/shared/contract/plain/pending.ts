import type { PendingItem, PendingView } from '../event.ts';

/** Kinds of pending items that a person decides about, call by call. */
const callKinds: ReadonlySet<PendingItem['kind']> = new Set<PendingItem['kind']>([
  'approval',
  'user_input',
  'unknown_outcome',
]);

/** What an item that is shown is called, whatever it is about. */
export function pendingNameOf({ toolCallId, id = '' }: PendingView): string {
  return toolCallId ?? id;
}

/** Does this wait end by what a person says about a call? */
export function isAboutCall({ kind }: Pick<PendingItem, 'kind'>): boolean {
  return callKinds.has(kind);
}
