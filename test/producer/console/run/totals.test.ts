import { expect, test } from 'vitest';
import { totalsOf, workedMsOf } from '../../../../src/producer/console/views/run/record/totals.ts';
import type { RunSteps } from '../../../../src/shared/contract/archive/run-steps.ts';
import type { RunView } from '../../../../src/shared/contract/run.ts';
import { at, recoveredRun } from './recovered-run.ts';

const used = { input: 10, output: 5, cached: 1, cacheWrite: 0 };

test('while a step goes on the sums are those of its steps, and never less than the record says', () => {
  const run = { costMicrocents: 0, steps: 0 } as RunView;
  const steps = { steps: [{ costMicrocents: 7, usage: used }, { costMicrocents: 3 }] } as unknown as RunSteps;
  expect(totalsOf(run, steps)).toEqual({ costMicrocents: 10, usage: used, stepCount: 2 });
  const settled = { costMicrocents: 25, steps: 4, usage: { ...used, input: 100 } } as RunView;
  expect(totalsOf(settled, steps)).toEqual({ costMicrocents: 25, usage: { ...used, input: 100 }, stepCount: 4 });
  expect(totalsOf(run, undefined)).toEqual({ costMicrocents: 0, usage: undefined, stepCount: 0 });
});

test('work is the time on workers, as far as all of it is known', () => {
  const { segments } = recoveredRun();
  expect(workedMsOf({ segments } as RunSteps)).toBe(2_500 + 3_000 + 5_000);
  expect(workedMsOf({ segments: [...segments, { from: at(30_000) }] } as RunSteps)).toBeUndefined();
  expect(workedMsOf({ segments: [] } as unknown as RunSteps)).toBeUndefined();
});
