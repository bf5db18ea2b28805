import type { RunSteps } from '../../../../../shared/contract/archive/run-steps.ts';
import type { RunView } from '../../../../../shared/contract/run.ts';
import { timeOf } from './waterfall.ts';

export interface Totals {
  readonly costMicrocents: number;
  readonly usage: Pick<NonNullable<RunView['usage']>, 'input' | 'output' | 'cached' | 'cacheWrite'> | undefined;
  readonly stepCount: number;
}

/** The sums of a run. While a step goes on its record does not have it yet, and its steps do. */
export function totalsOf(run: RunView, steps: RunSteps | undefined): Totals {
  const own = steps?.steps ?? [];
  const used = own.flatMap(({ usage }) => usage ?? []);
  const sum = (field: 'input' | 'output' | 'cached' | 'cacheWrite') =>
    Math.max(
      run.usage?.[field] ?? 0,
      used.reduce((total, usage) => total + usage[field], 0),
    );
  const hasUsage = run.usage !== undefined || used.length > 0;
  return {
    costMicrocents: Math.max(
      run.costMicrocents,
      own.reduce((total, { costMicrocents }) => total + costMicrocents, 0),
    ),
    usage: hasUsage
      ? { input: sum('input'), output: sum('output'), cached: sum('cached'), cacheWrite: sum('cacheWrite') }
      : undefined,
    stepCount: Math.max(run.steps, own.length),
  };
}

/** How long it was on workers. Undefined: some of it is not known. */
export function workedMsOf({ segments }: RunSteps): number | undefined {
  const stays = segments.map(({ from, to }) => (timeOf(to) ?? Number.NaN) - (timeOf(from) ?? Number.NaN));
  const sum = stays.reduce((total, ms) => total + ms, 0);
  return Number.isNaN(sum) || segments.length === 0 ? undefined : sum;
}
