import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import { api, withQuery, type ApiError } from '../../api.ts';
import { readPages, type PagedSource } from '../../paged.ts';
import { Poll } from '../../poll.ts';

const pageSize = 100;
const visibleMs = 3_000;
const hiddenMs = 15_000;

/** What waits for people, over all runs of the tenant, as the producer said last; what has waited longest comes first. */
export interface Inbox {
  /** Undefined: nothing is known yet. */
  readonly items: readonly ApprovalView[] | undefined;
  /** There are more than these. */
  readonly more: boolean;
  readonly error: ApiError | undefined;
}

const unknown: Inbox = { items: undefined, more: false, error: undefined };
export const inbox = signal<Inbox>(unknown);
/** Pages of the list that are kept fresh. */
let pages = 1;
let poll: Poll | undefined;

/** Keeps the inbox fresh while the session lasts, also in a tab that is not shown: its title says what waits. */
export function useInbox(): void {
  useEffect(() => {
    const leave = new AbortController();
    const { signal: left } = leave;
    const work = async () => {
      const { items, cursor } = await readPages(waiting, pages, left);
      if (!left.aborted) inbox.value = { items, more: cursor !== undefined, error: undefined };
    };
    const onError = (error: ApiError) => (inbox.value = { ...inbox.value, error });
    poll = new Poll({ work, onError, everyMs: visibleMs, hiddenMs, leave: left });
    void poll.now();
    return () => {
      leave.abort();
      poll = undefined;
      pages = 1;
      inbox.value = unknown;
    };
  }, []);
}

/** Reads the inbox now. What was known stays when that fails. */
export async function loadInbox(): Promise<void> {
  await poll?.now();
}

/** Reads, and from now on keeps fresh, one page more. */
export async function loadMore(): Promise<void> {
  pages += 1;
  await loadInbox();
}

const waiting: Pick<PagedSource<ApprovalView>, 'read' | 'keyOf'> = {
  read: async (cursor, signal) => {
    const path = withQuery('/v1/approvals', { order: 'oldest', limit: pageSize, cursor });
    const page = await api<{ approvals: readonly ApprovalView[]; cursor?: string }>(path, { signal });
    return { items: page.approvals, cursor: page.cursor };
  },
  keyOf: nameOfItem,
};

/** What names an item in a URL. */
export function nameOfItem({ runId, toolCallId, id, kind }: ApprovalView): string {
  return `${runId}/${kind === 'budget' ? 'budget' : (toolCallId ?? id ?? '')}`;
}

/** The same taken apart: ids of calls may have slashes, ids of runs have none. */
export function partsOfName(name: string): { readonly runId: string; readonly toolCallId: string } {
  const [runId = '', ...rest] = name.split('/');
  return { runId, toolCallId: rest.join('/') };
}

/** `3`, or `100+` when there are more; empty while nothing waits, or nothing is known. */
export function waitingText(): string {
  const { items = [], more } = inbox.value;
  return items.length === 0 ? '' : `${items.length}${more ? '+' : ''}`;
}
