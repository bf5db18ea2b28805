import { RunError } from '../../../shared/base/run-error.ts';

/** A turn that has a run. */
export interface OpenTurn {
  readonly runId: string;
  readonly executionId: string;
  readonly tenantId: string;
  readonly sessionId: string;
  /** Undefined for a run that was not submitted as a turn. */
  readonly turnIndex: number | undefined;
  /** The run was there already. */
  readonly attached: boolean;
  /** It had even ended. */
  readonly replayed: boolean;
}

/** Throws again; for a run that is not known, that nothing is known of its execution. */
export function notFoundAs(executionId: string): (error: unknown) => never {
  return (error) => {
    throw error instanceof RunError && error.code === 'run_not_found' ? executionNotFound(executionId) : error;
  };
}

export function executionNotFound(executionId: string): RunError {
  return new RunError('execution_not_found', `nothing is known of the execution ${executionId}`);
}
