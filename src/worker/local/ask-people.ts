import { systemClock } from '../../shared/base/clock.ts';
import { within } from '../../shared/base/deadline.ts';
import type { DecisionInput } from '../../shared/contract/control.ts';
import { pendingViewOf } from '../../shared/contract/decisions.ts';
import type { PendingItem, PendingView } from '../../shared/contract/event.ts';
import type { RunRecord } from '../../shared/contract/run.ts';

/** What a person says about one thing that a run waits for. */
export type PersonSays =
  | { readonly granted: boolean; readonly reason?: string; readonly updatedArgs?: Record<string, unknown> }
  | { readonly answer: string };

/** Asks a person in this process; `undefined`: nobody decides now. */
export type OnPending = (item: PendingView, runId: string) => Promise<PersonSays | undefined>;

type Said = { readonly toolCallId: string } & PersonSays;

const longestAskMs = 300_000;

/** Asks about everything that people decide. Undefined where nothing was decided; a person who cannot be asked has denied. */
export async function askPeople(
  { runId, pending }: RunRecord,
  onPending: OnPending,
): Promise<DecisionInput | undefined> {
  const items = pending.filter(({ kind }) => kind !== 'budget');
  const said = (await Promise.all(items.map((item) => ask(onPending, item, runId)))).filter((one) => one !== undefined);
  const approvals = said.filter((one) => 'granted' in one);
  const answers = said.filter((one) => 'answer' in one);
  if (said.length === 0) return undefined;
  return {
    approvals: approvals.length > 0 ? approvals : undefined,
    answers: answers.length > 0 ? answers : undefined,
  };
}

async function ask(onPending: OnPending, item: PendingItem, runId: string): Promise<Said | undefined> {
  const { id: toolCallId } = item;
  const never = new AbortController().signal;
  const settled = await within(longestAskMs, () => onPending(pendingViewOf(item), runId), systemClock, never);
  if (settled.kind === 'value') {
    const said = settled.value as PersonSays | undefined;
    return said && { toolCallId, ...said };
  }
  const { error } = settled.kind === 'threw' ? settled : { error: new Error('nobody answered') };
  const reason = error instanceof Error ? error.message.slice(0, 500) : 'nobody could be asked';
  return { toolCallId, granted: false, reason };
}
