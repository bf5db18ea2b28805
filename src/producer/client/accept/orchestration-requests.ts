import type { RunRequestInput } from '../../../shared/contract/run.ts';

/** The fields that any run may have. */
type Rest = Partial<Omit<RunRequestInput, 'fanOut' | 'evaluate' | 'taskRun'>>;

/** A fan-out, and what any run may have. `agent` is whose budget and limits apply; default: the first child's. */
export type FanOutRun = NonNullable<RunRequestInput['fanOut']> & Rest;

export function fanOutRequestOf(given: FanOutRun): RunRequestInput {
  const { children, mergeStrategy, perBudget, maxConcurrentChildren, ...rest } = given;
  return {
    // Without children there is no agent either, and the request says so.
    agent: children[0]?.agent ?? '',
    input: '',
    ...rest,
    fanOut: {
      children,
      mergeStrategy,
      perBudget,
      maxConcurrentChildren,
    },
  };
}

/** An evaluator-optimizer, and what any run may have. `agent` is whose budget and limits apply; default: the generator. */
export type EvaluateRun = NonNullable<RunRequestInput['evaluate']> & Rest & { readonly input: string };

export function evaluateRequestOf(given: EvaluateRun): RunRequestInput {
  const { generator, evaluator, maxIterations, select, ...rest } = given;
  return {
    agent: generator,
    ...rest,
    evaluate: { generator, evaluator, maxIterations, select },
  };
}

/** A task for an adapter that workers have. */
export type TaskRun = NonNullable<RunRequestInput['taskRun']>;
/** What any run may have beside its task. `agent` is only shown, unless workers have one of that name; default: the adapter. */
export type TaskRunOptions = Rest & { readonly signal?: AbortSignal };

export function taskRequestOf(taskRun: TaskRun, rest: Rest): RunRequestInput {
  return { agent: taskRun.adapter, input: '', ...rest, taskRun };
}
