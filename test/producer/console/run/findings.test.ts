import { expect, test } from 'vitest';
import { absenceOf } from '../../../../src/producer/console/views/run/record/absence.ts';
import { costByModel, costByStep } from '../../../../src/producer/console/views/run/record/costs.ts';
import { adviceFor, callCounts, culpritOf } from '../../../../src/producer/console/views/run/record/failure.ts';
import { findingsOf } from '../../../../src/producer/console/views/run/record/findings.ts';
import { tooLongFor } from '../../../../src/producer/console/views/run/record/too-long.ts';
import { errorTable, type ErrorCode } from '../../../../src/shared/base/errors.ts';
import type { RunEvent } from '../../../../src/shared/contract/event.ts';
import { at, attempt, call, recoveredRun, run, step } from './recovered-run.ts';

test('the call that failed last is the one to look at', () => {
  expect(culpritOf(recoveredRun())).toMatchObject({
    kind: 'call',
    call: { toolName: 'refund' },
    anchor: 'call-r-1-r:s1:t1',
  });
  expect(callCounts(recoveredRun())).toEqual({ calls: 2, failed: 1 });
});

test('a call within a script that failed is found, too', () => {
  const error = { kind: 'timeout' as const, message: 'too slow', hint: 'retry_later' };
  const inner = [{ ...call({ toolCallId: 'i', error }), inner: [] }];
  expect(culpritOf(run({ steps: [step({ calls: [call({ inner })] })] }))).toMatchObject({ anchor: 'call-r-1-i' });
});

test('a step without an answer comes before the calls of the steps before it', () => {
  const silent = step({ stepNumber: 3, attempts: [attempt({ outcome: 'failed' }), attempt({ outcome: 'skipped' })] });
  const steps = recoveredRun();
  steps.steps.push(silent);
  expect(culpritOf(steps)).toMatchObject({ kind: 'step', anchor: 'step-r-3' });
  expect(culpritOf(run({ steps: [step()] }))).toBeUndefined();
});

test('every error that can end a run has advice', () => {
  const ofRuns = Object.entries(errorTable).filter(([, { scope }]) => scope !== 'admission');
  const without = ofRuns.map(([code]) => code).filter((code) => adviceFor(code) === undefined);
  expect(without).toEqual([]);
  expect(adviceFor('constructor')).toBeUndefined();
});

test('a thread is too long where a run of it fails before its first answer, for its own cap or the window', () => {
  const error = (code: ErrorCode, details?: unknown) => ({ code, message: '', retryable: false, details });
  const failed = { runId: 'r', thread: 't', steps: 0 };
  const own = error('budget_exceeded', { scope: 'run', id: 'r' });
  expect(tooLongFor({ ...failed, error: own })).toBe('cap');
  expect(tooLongFor({ ...failed, error: error('context_length_exceeded') })).toBe('window');
  expect(tooLongFor({ ...failed, error: own, steps: 1 })).toBeUndefined();
  expect(tooLongFor({ ...failed, error: own, thread: undefined })).toBeUndefined();
  for (const details of [undefined, { scope: 'run', id: 'parent' }, { scope: 'batch', id: 'r' }])
    expect(tooLongFor({ ...failed, error: error('budget_exceeded', details) })).toBeUndefined();
  expect(tooLongFor({ ...failed, error: error('turn_limit') })).toBeUndefined();
  expect(tooLongFor(failed)).toBeUndefined();
});

test('costs add up by step with the children, and by model without', () => {
  const steps = recoveredRun();
  expect(costByStep(steps).map(({ label, costMicrocents }) => [label, costMicrocents])).toEqual([
    ['step 1', 3_000],
    ['step 2', 3_000],
    ['clerk', 0],
    ['judge', 500],
  ]);
  const byModel = costByModel(steps);
  expect(byModel.map(({ label, attempts, usage }) => [label, attempts, usage.total])).toEqual([
    ['gpt-5.2-mini', 2, 240],
    ['gpt-5.2-nano', 1, 120],
  ]);
  expect(byModel.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
});

test('findings of calls, model calls and events stand in the order of time', () => {
  const steps = recoveredRun();
  steps.policy.push({ at: at(100), subject: 'llm_call', action: 'deny', stepNumber: 1, reason: 'closed on Sundays' });
  steps.steps[0]?.calls[0]?.flow.push({
    at: at(7_000),
    decision: 'blocked',
    mode: 'enforce',
    findings: [{ rule: 'untrusted-value', argument: 'to', source: { name: 'http_request', trust: 'web' as never } }],
  });
  const loop = {
    type: 'agent.loop.detected',
    timestamp: at(18_000),
    pattern: 'same-call',
    action: 'warn',
    toolNames: ['refund'],
    count: 3,
    stepNumber: 2,
  };
  const found = findingsOf(steps, [loop as unknown as RunEvent]);
  expect(found.map(({ kind, about, isStop }) => [kind, about, isStop])).toEqual([
    ['policy', 'the model call of step 1', true],
    ['flow', 'lookup_order', true],
    ['policy', 'refund', false],
    ['loop', 'step 2', false],
  ]);
  expect(found[1]?.text).toBe('a value that an untrusted text brought in to, from http_request');
});

test('a run that is not there says whether it was erased, is past its time, or never was', () => {
  const said = (status: number, code: string, details?: unknown) =>
    absenceOf({ status, code, message: '', details }, 'acme')?.title;
  expect(said(410, 'gone', { reason: 'erased' })).toBe('This run was erased.');
  expect(said(410, 'gone')).toBe('This run is past its time.');
  expect(said(404, 'run_not_found')).toBe('There has never been such a run here.');
  expect(said(400, 'invalid_id')).toBe('This is no id of a run.');
  expect(said(503, 'queue_unavailable')).toBeUndefined();
});

test('a call whose outcome got lost is a finding that leads to it, in the step that made it', () => {
  const steps = run({
    steps: [
      step({ stepNumber: 1, startedAt: at(1_000), calls: [call({ toolCallId: 'call_0', toolName: 'charge' })] }),
      step({ stepNumber: 2, startedAt: at(9_000), calls: [call({ toolCallId: 'call_0', toolName: 'look' })] }),
    ],
  });
  const lost = { type: 'tool.outcome_unknown', timestamp: at(5_000), toolCallId: 'call_0', toolName: 'charge' };
  expect(findingsOf(steps, [lost as RunEvent])).toMatchObject([
    { kind: 'outcome', about: 'charge', isStop: true, anchor: 'call-r-1-call_0' },
  ]);
});
