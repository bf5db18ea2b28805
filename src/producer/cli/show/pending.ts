import type { PendingItem } from '../../../shared/event.ts';
import type { RunView } from '../../../shared/run.ts';
import { oneLine } from './paint.ts';

const maxReason = 160;

/** What a suspended run waits for, in words; empty when it waits for nothing. */
export function waitsFor({ pending }: Pick<RunView, 'pending'>): string {
  return pending.map(describe).join(', ');
}

/** Command lines that end the wait; none when it ends by itself. */
export function waysOn({ runId, pending }: Pick<RunView, 'runId' | 'pending'>): readonly string[] {
  if (!pending.some(({ kind }) => kind === 'budget')) return [];
  return [
    `millrace approve ${runId}              go over the cap for this step`,
    `millrace approve ${runId} --top-up 5   give it 5 dollars more`,
    `millrace deny ${runId}                 end it with budget_exceeded`,
  ];
}

function describe(item: PendingItem): string {
  const reason = item.reason === undefined ? '' : `: ${oneLine(item.reason, maxReason)}`;
  switch (item.kind) {
    case 'budget':
      return `money of ${item.id.replace(':', ' ')}${reason}`;
    case 'provider_limit':
      return `its turn at ${item.id}${reason}`;
    case 'retry':
      return `the next try${item.expiresAt ? ` at ${item.expiresAt}` : ''}${reason}`;
    default:
      return `${item.kind} ${item.toolName ?? ''} (${item.id})${reason}`;
  }
}
