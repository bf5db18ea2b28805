import type { RunView } from '../../../../../shared/contract/run.ts';

/** What all that was said in its thread is too long for: the cap of the run, or the context window of its models. */
export type TooLongFor = 'cap' | 'window';

/** Of a run in a thread that failed before a model had answered it. Later, what it did itself may be the reason. */
export function tooLongFor({
  runId,
  thread,
  steps,
  error,
}: Pick<RunView, 'runId' | 'thread' | 'steps' | 'error'>): TooLongFor | undefined {
  if (thread === undefined || steps > 0) return undefined;
  if (error?.code === 'context_length_exceeded') return 'window';
  return error?.code === 'budget_exceeded' && isAccountOf(runId, error.details) ? 'cap' : undefined;
}

/** Without an account, a person refused more money. That of a batch or of a tenant is spent by other runs, too. */
function isAccountOf(runId: string, details: unknown): boolean {
  const { scope, id } = (details ?? {}) as { readonly scope?: unknown; readonly id?: unknown };
  return scope === 'run' && id === runId;
}
