import type { TaskEval } from '../../../shared/contract/orchestration/task.ts';

/** The mean of all checks: their scores, or 1 and 0 for those that only passed or failed. Undefined without checks. */
export function meanScore(evals: readonly TaskEval[]): number | undefined {
  if (evals.length === 0) return undefined;
  return evals.reduce((sum, one) => sum + scoreOf(one), 0) / evals.length;
}

export function scoreOf({ score, passed }: Pick<TaskEval, 'score' | 'passed'>): number {
  return score ?? (passed ? 1 : 0);
}

/** Are there checks, and did all pass that matter? `info` and `warning` do not. */
export function hasPassed(evals: readonly TaskEval[]): boolean {
  return (
    evals.length > 0 && evals.every(({ passed, severity }) => passed || severity === 'info' || severity === 'warning')
  );
}
