import { z } from 'zod';
import type { HistoryMessage } from '../../shared/contract/request/history.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { ThreadItem } from '../../shared/contract/thread/thread-items.ts';

/** A message as an item of a list. */
export const listedItem = z.object({
  id: z.string(),
  type: z.literal('message'),
  status: z.literal('completed'),
  role: z.enum(['user', 'assistant', 'system']),
  content: z.array(z.looseObject({ type: z.string(), text: z.string() })),
});
export type ListedItem = z.infer<typeof listedItem>;

function itemOf(id: string, role: ListedItem['role'], text: string): ListedItem {
  const part =
    role === 'assistant' ? { type: 'output_text', text, annotations: [], logprobs: [] } : { type: 'input_text', text };
  return { id, type: 'message', status: 'completed', role, content: [part] };
}

/** What a run was asked with, oldest first. */
export function inputItemsOf({ runId, request: { history = [], input } }: Pick<RunRecord, 'runId' | 'request'>) {
  return itemsOfHistory(`msg_${runId}_in`, [...history, { role: 'user', content: input }]);
}

export function itemsOfHistory(prefix: string, said: readonly HistoryMessage[]): readonly ListedItem[] {
  return said.map(({ role, content }, index) => itemOf(`${prefix}_${index}`, role, content));
}

/** Messages of a thread. Calls, results and what is still being said are no items. */
export function itemsOfThread(items: readonly ThreadItem[]): readonly ListedItem[] {
  return items.flatMap((item) => {
    if (item.seq === undefined) return [];
    if (item.kind === 'message') return [itemOf(`msg_${item.seq}`, item.role, item.text)];
    return item.kind === 'assistant_text' ? [itemOf(`msg_${item.seq}`, 'assistant', item.text)] : [];
  });
}
