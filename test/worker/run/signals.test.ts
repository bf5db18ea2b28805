import { expect, test } from 'vitest';
import { RunError } from '../../../src/shared/base/errors.ts';
import { RunSignals } from '../../../src/worker/run/signals.ts';

const request = { drain: false, onPendingApprovals: 'deny' } as const;

test('a cancel aborts with the code cancelled and a drain does not abort', () => {
  const signals = new RunSignals(new AbortController().signal);
  signals.cancel({ ...request, drain: true });
  expect(signals.signal.aborted).toBe(false);
  expect(signals.cancelRequest?.drain).toBe(true);
  signals.cancel(request);
  expect(signals.signal.reason).toMatchObject({ code: 'cancelled' });
  expect(signals.cancelRequest?.drain).toBe(false);
});

test('a drain does not soften a cancel that came before it', () => {
  const signals = new RunSignals(new AbortController().signal);
  signals.cancel(request);
  signals.cancel({ ...request, drain: true });
  expect(signals.cancelRequest?.drain).toBe(false);
});

test('losing the lock is remembered even after a cancel', () => {
  const outer = new AbortController();
  const signals = new RunSignals(outer.signal);
  signals.cancel(request);
  outer.abort(new RunError('lock_lost', 'gone'));
  expect(signals.lost).toBe(true);
});

test('a worker that shuts down asks for a handover, not for a cancel', () => {
  const outer = new AbortController();
  const signals = new RunSignals(outer.signal);
  outer.abort(new RunError('worker_lost', 'shutting down'));
  expect(signals.handOver).toBe(true);
  expect(signals.lost).toBe(false);
  expect(signals.signal.aborted).toBe(true);
});

test('a wall-clock limit that has passed aborts at once and names the limit', () => {
  const signals = new RunSignals(new AbortController().signal);
  signals.limitWallTime(1_000, 1_500);
  expect(signals.signal.reason).toMatchObject({ code: 'run_timeout' });
  expect(signals.wallTimeMs).toBe(1_000);
});
