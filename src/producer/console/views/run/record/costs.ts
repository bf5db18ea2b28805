import type { RunSteps, StepView } from '../../../../../shared/contract/archive/run-steps.ts';
import type { Usage } from '../../../../../shared/contract/money.ts';

/** One row of a table of costs. */
export interface CostRow {
  readonly key: string;
  readonly label: string;
  readonly model: string;
  readonly attempts: number;
  readonly usage: Usage;
  readonly costMicrocents: number;
  /** Of the whole, from 0 to 1. */
  readonly share: number;
}

const none: Usage = { input: 0, output: 0, cached: 0, cacheWrite: 0, total: 0 };

/** What each step cost, and after them each child. */
export function costByStep({ steps, children }: RunSteps): readonly CostRow[] {
  const rows = [
    ...steps.map((step) => ({
      key: `step-${step.stepNumber}`,
      label: `step ${step.stepNumber}`,
      model: modelsOf(step).join(', '),
      attempts: step.attempts.length,
      usage: step.usage ?? none,
      costMicrocents: step.costMicrocents,
    })),
    ...children.map(({ runId, agent = runId, costMicrocents = 0 }) => ({
      key: runId,
      label: agent,
      model: 'a run of its own',
      attempts: 0,
      usage: none,
      costMicrocents,
    })),
  ];
  return withShares(rows);
}

/** What each model cost in this run's own steps, the dearest first. */
export function costByModel({ steps }: RunSteps): readonly CostRow[] {
  const sums = new Map<string, Omit<CostRow, 'share'>>();
  for (const attempt of steps.flatMap(({ attempts }) => attempts)) {
    if (attempt.outcome === 'skipped') continue;
    const { model, provider, usage = none, costMicrocents } = attempt;
    const key = `${provider}/${model}`;
    const before = sums.get(key) ?? { key, label: model, model: provider, attempts: 0, usage: none, costMicrocents: 0 };
    sums.set(key, {
      ...before,
      attempts: before.attempts + 1,
      usage: sumOf(before.usage, usage),
      costMicrocents: before.costMicrocents + costMicrocents,
    });
  }
  return withShares([...sums.values()].sort((a, b) => b.costMicrocents - a.costMicrocents));
}

function modelsOf({ attempts, model }: StepView): readonly string[] {
  const tried = attempts.filter(({ outcome }) => outcome !== 'skipped').map((attempt) => attempt.model);
  return [...new Set(tried.length === 0 && model ? [model] : tried)];
}

function sumOf(a: Usage, b: Usage): Usage {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cached: a.cached + b.cached,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    total: a.total + b.total,
  };
}

function withShares(rows: readonly Omit<CostRow, 'share'>[]): readonly CostRow[] {
  const whole = rows.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0);
  return rows.map((row) => ({ ...row, share: whole === 0 ? 0 : row.costMicrocents / whole }));
}
