import { isAnswer } from '../../shared/state/run/children/children.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { asRunError, assertNever, RunError, type ErrorInfo } from '../../shared/base/errors.ts';
import { addUsage, zeroUsage } from '../../shared/contract/money.ts';
import { cutText } from '../../shared/base/redact.ts';
import { runOutcomeView, type RunOutcomeView } from '../../shared/contract/run.ts';
import { within, type Settled } from '../../shared/base/deadline.ts';
import type { FanOutPlan, Spent } from './fan-out-options.ts';
import { childOutcome, type ChildOutcome, type FanOutResultChild } from '../agents/define-judge.ts';

const nothingSpent: Spent = { usage: zeroUsage, costMicrocents: 0, toolCalls: 0 };
const maxErrorBytes = 2_048;

type Budget = FanOutPlan<unknown>['budget'];

/** One child from its start to its end. Never throws: how it went is its status. */
export async function runChild(
  child: FanOutPlan<unknown>['children'][number],
  budget: Budget,
  clock: Clock,
  stop: AbortSignal,
): Promise<FanOutResultChild> {
  const { agentId, id } = child;
  let spent = nothingSpent;
  let own: AbortSignal | undefined;
  const report = (sofar: Spent) => void (spent = sofar);
  const work = (signal: AbortSignal) => {
    own = signal;
    return child.invoke(signal, report);
  };
  const settled = await within(budget.durationMs, work, clock, stop);
  const isLate = own?.aborted === true && own.reason !== stop.reason;
  const outcome = outcomeOf(settled, spent, budget);
  const leaks = child.origins && { leaks: { denials: [], origins: [...child.origins] } };
  return {
    agentId,
    id,
    ...leaks,
    ...(isLate ? exceeded(outcome, `${budget.durationMs} ms`) : withinBudget(outcome, budget)),
  };
}

function outcomeOf(settled: Settled, spent: Spent, budget: Budget): ChildOutcome {
  switch (settled.kind) {
    case 'value':
      return readAnswer(settled.value, spent, budget);
    case 'threw':
      return { status: 'failed', ...spent, error: infoOf(asRunError(settled.error)) };
    case 'timeout':
      return { status: 'budget_exceeded', ...spent, durationMs: budget.durationMs };
    case 'aborted':
      return { status: 'cancelled', ...spent };
    default:
      return assertNever(settled);
  }
}

/** A child is foreign code: what it answers is read before it is trusted. */
function readAnswer(answer: unknown, spent: Spent, budget: Budget): ChildOutcome {
  const outcome = childOutcome.safeParse(answer);
  if (outcome.success) return outcome.data;
  const view = runOutcomeView.safeParse(answer);
  if (!view.success) return failed('the child did not answer how it ended', spent);
  if (budget.toolCalls !== undefined && spent === nothingSpent)
    return failed('the child does not report its tool calls, of which there is a budget', outcomeOfRun(view.data, 0));
  return outcomeOfRun(view.data, spent.toolCalls);
}

/** How a run ended, as the outcome of a child. A run that waits has failed: there is no one to decide inside a fan-out. */
export function outcomeOfRun(view: RunOutcomeView, toolCalls: number): ChildOutcome {
  const { durationMs } = view;
  return {
    status: statusOf(view),
    output: view.text,
    usage: view.usage ? addUsage(zeroUsage, view.usage) : zeroUsage,
    costMicrocents: view.costMicrocents,
    toolCalls,
    ...(durationMs !== undefined && { durationMs }),
    ...errorOf(view),
  };
}

export function statusOf({ status, error }: Pick<RunOutcomeView, 'status' | 'error'>): ChildOutcome['status'] {
  if (isAnswer({ status })) return 'completed';
  if (status === 'cancelled') return status;
  return error?.code === 'budget_exceeded' ? 'budget_exceeded' : 'failed';
}

function errorOf({ status, error }: RunOutcomeView): { readonly error?: ErrorInfo } {
  if (isAnswer({ status })) return {};
  if (error) return { error };
  if (status === 'cancelled') return {};
  return { error: infoOf(new RunError('internal', `the run is ${status}, which a fan-out does not wait for`)) };
}

function withinBudget(outcome: ChildOutcome, { tokens, toolCalls }: Budget): ChildOutcome {
  if (outcome.status !== 'completed') return outcome;
  if (tokens !== undefined && outcome.usage.total > tokens) return exceeded(outcome, `${tokens} tokens`);
  if (toolCalls !== undefined && outcome.toolCalls > toolCalls) return exceeded(outcome, `${toolCalls} tool calls`);
  return outcome;
}

function exceeded(outcome: ChildOutcome, limit: string): ChildOutcome {
  const error = infoOf(new RunError('budget_exceeded', `the child passed its ${limit}`));
  return { ...outcome, status: 'budget_exceeded', error };
}

function failed(message: string, spent: Spent): ChildOutcome {
  return { ...spent, status: 'failed', error: infoOf(new RunError('validation', message)) };
}

function infoOf({ code, message, retryable }: RunError): ErrorInfo {
  return { code, message: cutText(message, maxErrorBytes), retryable };
}
