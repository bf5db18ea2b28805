import { invalid } from '../../../shared/base/problems.ts';
import { decisionRequest, type DecisionInput } from '../../../shared/contract/control.ts';
import type { Decide, DecideOutcome } from '../../../shared/state/run/control/decide.ts';
import { callVerdicts, refusalError, summaryOf, waitsForPeople } from '../../../shared/contract/decisions.ts';
import { assertNever, RunError } from '../../../shared/base/errors.ts';
import { findSecretKey } from '../../../shared/base/redact.ts';
import type { SavedRun } from './memory-row.ts';

/** One person's decision, checked. Throws `validation` or `secret_in_payload`. */
export function decideOf(input: DecisionInput, by: string | undefined, atMs: number): Decide {
  const parsed = decisionRequest.safeParse(input);
  if (!parsed.success) throw invalid('validation', 'the decision is not valid', parsed.error);
  const secret = findSecretKey(parsed.data);
  if (secret) throw new RunError('secret_in_payload', `${secret} looks like a credential; runs must not carry any`);
  const { budget } = parsed.data;
  if (typeof budget === 'object') throw new RunError('validation', 'budget: a top-up needs budgets in Redis');
  const at = new Date(atMs).toISOString();
  const verdicts = callVerdicts(parsed.data, by, at);
  const said = [...(budget ? [`budget: ${budget}`] : []), ...(verdicts.length > 0 ? [summaryOf(verdicts)] : [])];
  const entry = { v: 1, t: 'decided', at, ...(budget && { budget, ...(by !== undefined && { by }) }) } as const;
  return { verdicts, by, summary: said.join(', '), entry, atMs };
}

/** Did the wait of the run end? Throws what a caller of `Millrace.decide` gets. */
export function hasResumed(runId: string, outcome: DecideOutcome): boolean {
  switch (outcome.kind) {
    case 'resumed':
      return true;
    case 'recorded':
      return false;
    case 'gone':
      throw new RunError('run_not_found', `there is no run ${runId}`);
    case 'terminal':
      throw new RunError('already_terminal', `run ${runId} has already ended`);
    case 'refused':
      throw refusalError(runId, outcome.refusal);
    default:
      return assertNever(outcome);
  }
}

/**
 * When a suspended run goes on by itself, in milliseconds since the epoch: when its first call expires. One that waits for
 * nobody and for no time is woken now, and looks for itself.
 */
export function firstDue({ record: { status, pending } }: SavedRun, nowMs: number): number | undefined {
  if (status !== 'suspended') return undefined;
  const times = pending.flatMap(({ expiresAt }) => (expiresAt === undefined ? [] : [Date.parse(expiresAt)]));
  if (times.length > 0) return Math.min(...times);
  return pending.some(waitsForPeople) ? undefined : nowMs;
}
