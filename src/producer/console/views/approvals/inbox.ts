import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApprovalView } from '../../../../shared/contract/inbox/approvals.ts';
import { api, asApiError, retryPause, withQuery, type ApiError } from '../../api.ts';

const pageSize = 100;
const visibleMs = 3_000;
const hiddenMs = 15_000;

/** What waits for people, over all runs of the tenant, as the producer said last. */
export interface Inbox {
  /** Undefined: nothing is known yet. */
  readonly items: readonly ApprovalView[] | undefined;
  /** There are more than these. */
  readonly more: boolean;
  readonly error: ApiError | undefined;
}

export const inbox = signal<Inbox>({ items: undefined, more: false, error: undefined });
/** Pages of the list that are kept fresh. */
const pages = signal(1);

/** Keeps the inbox fresh while the session lasts, also in a tab that is not shown: its title says what waits. */
export function useInbox(): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let left = false;
    const next = async () => {
      clearTimeout(timer);
      const { error } = await loadInbox();
      if (left) return;
      failures = error ? failures + 1 : 0;
      // A key without the scope to read gets no other answer by asking again.
      if (error && !error.retryable) return;
      timer = setTimeout(() => void next(), error ? retryPause(failures) : document.hidden ? hiddenMs : visibleMs);
    };
    const onVisible = () => void (!document.hidden && next());
    document.addEventListener('visibilitychange', onVisible);
    void next();
    return () => {
      left = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisible);
      inbox.value = { items: undefined, more: false, error: undefined };
      pages.value = 1;
    };
  }, []);
}

/** Reads the inbox now. What was known stays when that fails. */
export async function loadInbox(): Promise<Inbox> {
  try {
    inbox.value = { ...(await readPages(pages.value)), error: undefined };
  } catch (error) {
    inbox.value = { ...inbox.value, error: asApiError(error) };
  }
  return inbox.value;
}

/** Reads, and from now on keeps fresh, one page more. */
export async function loadMore(): Promise<void> {
  pages.value += 1;
  await loadInbox();
}

async function readPages(most: number): Promise<{ items: readonly ApprovalView[]; more: boolean }> {
  const items: ApprovalView[] = [];
  let cursor: string | undefined;
  // A page may be short, even empty, and still have another behind it.
  for (let page = 0; page < most || (items.length === 0 && cursor !== undefined); page++) {
    const answer = await api<{ approvals: readonly ApprovalView[]; cursor?: string }>(
      withQuery('/v1/approvals', { limit: pageSize, cursor }),
    );
    items.push(...answer.approvals);
    cursor = answer.cursor;
    if (cursor === undefined) break;
  }
  return { items, more: cursor !== undefined };
}

/** What names an item in a URL. */
export function nameOfItem({ runId, toolCallId, id, kind }: ApprovalView): string {
  return `${runId}/${kind === 'budget' ? 'budget' : (toolCallId ?? id ?? '')}`;
}

/** `3`, or `100+` when there are more; empty while nothing waits, or nothing is known. */
export function waitingText(): string {
  const { items = [], more } = inbox.value;
  return items.length === 0 ? '' : `${items.length}${more ? '+' : ''}`;
}
