import { RunError } from '../../../shared/base/run-error.ts';

/** The answer to what only makes sense for a run that goes on. */
export function alreadyEnded(runId: string): RunError {
  return new RunError('already_terminal', `run ${runId} has already ended`);
}
