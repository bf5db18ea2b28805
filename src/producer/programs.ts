import type { RunRequestInput } from '../shared/run.ts';

type Rest = Partial<Omit<RunRequestInput, 'fanOut'>>;
type FanOut = NonNullable<RunRequestInput['fanOut']>;

/** A fan-out, and what any run may have. `agent` is whose budget and limits hold; default: the first child's. */
export type FanOutRun = FanOut & Rest;

export function fanOutRequestOf({
  children,
  mergeStrategy,
  perBudget,
  maxConcurrentChildren,
  ...rest
}: FanOutRun): RunRequestInput {
  return {
    // Without children there is no agent either, and the request says so.
    agent: children[0]?.agent ?? '',
    input: '',
    ...rest,
    fanOut: {
      children,
      ...(mergeStrategy && { mergeStrategy }),
      ...(perBudget && { perBudget }),
      ...(maxConcurrentChildren !== undefined && { maxConcurrentChildren }),
    },
  };
}
