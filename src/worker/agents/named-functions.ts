import type { AnswerMerge, MergeJudge } from './define-judge.ts';
import type { TaskAdapter } from './adapter.ts';

/** The functions of the operator's own that a request can name. */
export interface NamedFunctions {
  readonly judges: ReadonlyMap<string, MergeJudge>;
  readonly merges: ReadonlyMap<string, AnswerMerge>;
  readonly adapters: ReadonlyMap<string, TaskAdapter>;
}
