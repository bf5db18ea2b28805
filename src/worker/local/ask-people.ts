import { systemClock } from '../../shared/base/clock.ts';
import { within } from '../../shared/base/deadline.ts';
import type { DecisionInput } from '../../shared/contract/control.ts';
import { pendingViewOf } from '../../shared/contract/decisions.ts';
import type { PendingItem, PendingView } from '../../shared/contract/event.ts';
import type { RunRecord } from '../../shared/contract/run.ts';

/** A person's verdict about one thing that a run waits for. */
export type PersonVerdict =
  | { readonly granted: boolean; readonly reason?: string; readonly updatedArgs?: Record<string, unknown> }
  | { readonly answer: string };

/** Asks a person in this process; `undefined`: no decision now. */
export type OnPending = (item: PendingView, runId: string) => Promise<PersonVerdict | undefined>;

type CallVerdict = { readonly toolCallId: string } & PersonVerdict;

const longestAskMs = 300_000;

/** Asks about everything that people decide. Undefined where nothing was decided; a person who cannot be asked has denied. */
export async function askPeople(
  { runId, pending }: RunRecord,
  onPending: OnPending,
): Promise<DecisionInput | undefined> {
  const items = pending.filter(({ kind }) => kind !== 'budget');
  const verdicts = (await Promise.all(items.map((item) => ask(onPending, item, runId)))).filter(
    (one) => one !== undefined,
  );
  const approvals = verdicts.filter((one) => 'granted' in one);
  const answers = verdicts.filter((one) => 'answer' in one);
  if (verdicts.length === 0) return undefined;
  return {
    approvals: approvals.length > 0 ? approvals : undefined,
    answers: answers.length > 0 ? answers : undefined,
  };
}

async function ask(onPending: OnPending, item: PendingItem, runId: string): Promise<CallVerdict | undefined> {
  const { id: toolCallId } = item;
  const never = new AbortController().signal;
  const settled = await within(longestAskMs, () => onPending(pendingViewOf(item), runId), systemClock, never);
  if (settled.kind === 'value') {
    const verdict = settled.value as PersonVerdict | undefined;
    return verdict && { toolCallId, ...verdict };
  }
  const { error } = settled.kind === 'threw' ? settled : { error: new Error('no person answered') };
  const reason = error instanceof Error ? error.message.slice(0, 500) : 'no person could be asked';
  return { toolCallId, granted: false, reason };
}
