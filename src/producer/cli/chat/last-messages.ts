import { RunError } from '../../../shared/base/errors.ts';
import type { ThreadItem } from '../../../shared/contract/thread/thread-items.ts';
import type { Millrace } from '../../client/millrace.ts';
import { maxMessages } from '../../client/threads.ts';

/** The last messages of a thread, oldest first, without what was done in between. None for a thread that there is not. */
export async function lastMessages(mill: Millrace, thread: string, count: number): Promise<readonly ThreadItem[]> {
  const found: ThreadItem[] = [];
  let before: number | undefined;
  try {
    do {
      const range = { order: 'desc', limit: maxMessages, ...(before !== undefined && { before }) } as const;
      const page = await mill.threads.messages(thread, range);
      found.push(...page.messages.filter(({ kind }) => kind === 'message'));
      before = page.next;
    } while (before !== undefined && found.length < count);
  } catch (error) {
    if (!(error instanceof RunError && error.code === 'not_found')) throw error;
  }
  return found.slice(0, count).toReversed();
}
