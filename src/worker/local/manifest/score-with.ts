import type { TaskEval } from '../../../shared/contract/orchestration/task.ts';
import { scoreOf } from '../../orchestration/task/answers.ts';

/** The score of a run by a rubric. */
export interface RubricScore {
  /** Between 0 and 1: the mean of all dimensions by their weights. */
  readonly score: number;
  readonly dimensions: readonly {
    readonly id: string;
    readonly weight: number;
    readonly score: number;
    /** There was no eval for it, so that it counts as 0. */
    readonly missing: boolean;
  }[];
}

/** Weighs evals by the dimension that has their id. Evals without one do not count. Never throws. */
export function scoreWith(
  rubric: { readonly dimensions: readonly { readonly id: string; readonly weight: number }[] },
  evals: readonly TaskEval[],
): RubricScore {
  const dimensions = rubric.dimensions.map(({ id, weight }) => {
    const found = evals.find((one) => one.id === id);
    return { id, weight, score: found ? scoreOf(found) : 0, missing: found === undefined };
  });
  const total = dimensions.reduce((sum, { weight }) => sum + weight, 0);
  const weighted = dimensions.reduce((sum, { weight, score }) => sum + weight * score, 0);
  return { score: total > 0 ? weighted / total : 0, dimensions };
}
