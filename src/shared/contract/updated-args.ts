import type { ArgumentChecks } from '../base/argument-checks.ts';
import { RunError } from '../base/errors.ts';
import type { DecisionRequest } from './control.ts';
import type { PendingItem } from './event.ts';

/** Does a decision put arguments in the place of the model's? Only then there is anything to check. */
export function hasUpdatedArgs({ approvals = [] }: Pick<DecisionRequest, 'approvals'>): boolean {
  return approvals.some(({ updatedArgs }) => updatedArgs !== undefined);
}

/**
 * Throws `validation` for arguments that a pending call does not take, before anything is decided: the approval stays open. A
 * call whose schema is not known is left to its worker, which has the last word in any case.
 */
export function checkUpdatedArgs(
  runId: string,
  { approvals = [] }: Pick<DecisionRequest, 'approvals'>,
  pending: readonly PendingItem[],
  checks: Pick<ArgumentChecks, 'check'>,
): void {
  const found = approvals.flatMap(({ toolCallId, updatedArgs }, index) => {
    const schema = pending.find(({ id }) => id === toolCallId)?.argsSchema;
    if (!updatedArgs || !schema) return [];
    const checked = checks.check({ checked: schema, dialect: '2020-12' }, updatedArgs, () => {});
    if (checked.ok) return [];
    const path = `approvals.${index}.updatedArgs`;
    return checked.problems.map((problem) => ({ toolCallId, problem, detail: { path, message: problem } }));
  });
  if (found.length === 0) return;
  const calls = [...Map.groupBy(found, ({ toolCallId }) => toolCallId)].map(
    ([id, problems]) =>
      `call ${id} does not take these arguments: ${problems.map(({ problem }) => problem).join('; ')}`,
  );
  throw new RunError('validation', `${calls.join('. ')}. Nothing was decided: run ${runId} still waits`, {
    details: found.map(({ detail }) => detail),
  });
}
