import type { DecisionInput } from '../../shared/contract/control.ts';
import { isAboutCall, pendingNameOf } from '../../shared/contract/decisions.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { PendingView } from '../../shared/contract/event.ts';
import { isTerminalStatus, type RunView } from '../../shared/contract/run.ts';

export interface ApproveCalls {
  /** Absent: everything that the run waits for and that can be granted. */
  readonly calls?: string | readonly string[];
  /** The call runs with these arguments in place of the model's. Needs exactly one call. */
  readonly updatedArgs?: Readonly<Record<string, unknown>>;
  readonly reason?: string;
}

export interface DenyCalls {
  /** Absent: everything that the run waits for. */
  readonly calls?: string | readonly string[];
  readonly reason?: string;
}

type Waiting = Pick<RunView, 'runId' | 'status' | 'pending'>;

/**
 * The decision that grants calls of a run, or all that it waits for: calls, and money for one step. Throws
 * `approval_not_pending` when there is nothing to grant, `already_terminal`, and `validation` for arguments without one call
 * that they are for.
 */
export function approval(run: Waiting, { calls, updatedArgs, reason }: ApproveCalls): DecisionInput {
  const ids = listed(calls) ?? open(run, ({ kind }) => kind === 'approval' || kind === 'unknown_outcome');
  const money = calls === undefined && updatedArgs === undefined && waitsForMoney(run);
  if (ids.length === 0 && !money) throw nothing(run, 'be approved');
  if (updatedArgs && ids.length !== 1) {
    throw new RunError(
      'validation',
      `arguments need exactly one call: run ${run.runId} waits for ${ids.join(' and ')}; name the one that they are for`,
    );
  }
  const approvals = ids.map((toolCallId) => ({
    toolCallId,
    granted: true,
    updatedArgs: updatedArgs ? { ...updatedArgs } : undefined,
  }));
  return decision(approvals, money ? 'approve' : undefined, reason);
}

/** The decision that denies calls of a run, or all that it waits for; of money, that ends it. Throws as {@link approval}. */
export function denial(run: Waiting, { calls, reason }: DenyCalls): DecisionInput {
  const ids = listed(calls) ?? open(run, () => true);
  const money = calls === undefined && waitsForMoney(run);
  if (ids.length === 0 && !money) throw nothing(run, 'be denied');
  const approvals = ids.map((toolCallId) => ({ toolCallId, granted: false }));
  return decision(approvals, money ? 'reject' : undefined, reason);
}

/** The call that an answer is for when none is named: the only one that takes an answer. Throws `validation`. */
export function questionOf(run: Waiting): string {
  const ids = open(run, ({ kind, mode }) => kind === 'user_input' || kind === 'unknown_outcome' || mode === 'deferred');
  const [id] = ids;
  if (id === undefined) throw nothing(run, 'be answered');
  if (ids.length === 1) return id;
  throw new RunError(
    'validation',
    `run ${run.runId} waits for answers to ${ids.join(' and ')}: name the one that this is for`,
  );
}

function decision(
  approvals: readonly { readonly toolCallId: string; readonly granted: boolean }[],
  budget: 'approve' | 'reject' | undefined,
  reason: string | undefined,
): DecisionInput {
  return {
    approvals: approvals.length > 0 ? [...approvals] : undefined,
    budget,
    reason,
  };
}

function listed(calls: string | readonly string[] | undefined): readonly string[] | undefined {
  return typeof calls === 'string' ? [calls] : calls;
}

function open({ pending }: Waiting, suits: (item: PendingView) => boolean): string[] {
  return pending.filter((item) => isAboutCall(item) && suits(item)).map(pendingNameOf);
}

function waitsForMoney({ status, pending }: Waiting): boolean {
  return status === 'suspended' && pending.some(({ kind }) => kind === 'budget');
}

function nothing({ runId, status, pending }: Waiting, be: string): RunError {
  if (isTerminalStatus(status)) return new RunError('already_terminal', `run ${runId} has already ended`);
  const asked = pending.filter(({ kind }) => kind === 'user_input').map(pendingNameOf);
  const hint = asked.length > 0 && be === 'be approved' ? `; it asks a question (${asked.join(', ')}): answer it` : '';
  return new RunError('approval_not_pending', `run ${runId} waits for nothing that can ${be}${hint}`);
}
