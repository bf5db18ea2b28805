import type { DecisionInput } from '../../../shared/contract/control.ts';
import { pendingNameOf, type DecisionView } from '../../../shared/contract/decisions.ts';
import type { PendingView } from '../../../shared/contract/event.ts';
import { formatUsd } from '../../../shared/contract/money.ts';
import type { RunView } from '../../../shared/contract/run.ts';
import { oneLine } from './paint.ts';
import { waitsFor } from './pending.ts';

/** What a decision did and what happens next, a line each. `before` is the run as it was when that was chosen. */
export function whatFollows(before: RunView, { budget }: DecisionInput, after: RunView): readonly string[] {
  const calls = before.pending.flatMap((item) => effectOn(item, after));
  return [...calls, next(before, budget, after)];
}

function next(before: RunView, budget: DecisionInput['budget'], after: RunView): string {
  const { runId, status } = after;
  if (budget === 'reject') return `${runId} ends with budget_exceeded; it has spent ${formatUsd(after.costMicrocents)}`;
  if (budget === 'approve') return `${runId} goes on; its next step may pass the cap`;
  const left = waitsFor(after);
  if (before.status === 'suspended' && status !== 'suspended') {
    return left === '' ? `${runId} goes on` : `${runId} goes on; it still waits for ${left}`;
  }
  return left === '' ? `${runId} is ${status}` : `${runId} waits for ${left}`;
}

/** One decision as it is shown with its run: what, by whom, when and why. */
export function decisionLine(decision: DecisionView): string {
  const { toolName, toolCallId, granted, answered, edited, by, at, reason, votes: given = [] } = decision;
  const people = by.length > 0 ? by : [...new Set(given.flatMap((vote) => vote.by ?? []))];
  const isOpen = granted === undefined && !answered;
  const what = isOpen ? 'voted on' : answered ? 'answered' : granted ? `approved${edited ? ', edited' : ''}` : 'denied';
  const who = people.length > 0 ? ` by ${people.map((name) => oneLine(name, 80)).join(' and ')}` : '';
  const why = reason === undefined ? '' : `: ${oneLine(reason, 200)}`;
  return `${oneLine(toolName ?? '', 128)} (${oneLine(toolCallId, 128)}) ${what}${who} at ${at}${why}`;
}

/** What became of one thing that the run waited for: nothing when it is as it was. */
function effectOn(item: PendingView, { pending, decisions = [] }: RunView): string[] {
  const call = pendingNameOf(item);
  const name = `${item.toolName ?? item.kind} (${call})`;
  const decision = decisions.findLast(({ toolCallId }) => toolCallId === call);
  if (!decision) return [];
  if (pending.some((other) => pendingNameOf(other) === call))
    return [`${name}: ${votes(decision, item.approvers ?? 1)}`];
  return [`${name} ${verdict(decision)}`];
}

function verdict({ granted, answered, edited, kind, by }: DecisionView): string {
  const who = by.length > 0 ? ` by ${by.map((name) => oneLine(name, 80)).join(' and ')}` : '';
  if (answered) return `is answered${who}`;
  if (!granted) return `is denied${who}; the model is informed`;
  const what = kind === 'unknown_outcome' ? 'runs once more' : `runs${edited ? ' with the new arguments' : ''}`;
  return `is approved${who} and ${what}`;
}

function votes({ votes: given = [] }: DecisionView, needed: number): string {
  const people = new Set(given.map(({ by = '' }) => by));
  const names = [...people].map((name) => oneLine(name, 80)).join(', ');
  return `${people.size} of ${needed} people have voted (${names}); it needs ${needed} equal votes`;
}
