import { expect, test } from 'vitest';
import { systemClock } from '../../../src/shared/base/clock.ts';
import { RunError } from '../../../src/shared/base/errors.ts';
import { RunSignals, CancelWatch } from '../../../src/worker/run/signals.ts';
import type { CancelRequest } from '../../../src/shared/contract/control.ts';
import { silentLog } from '../../../src/shared/base/log.ts';
import type { Ports } from '../../../src/worker/run/ports.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { until } from '../../support/redis.ts';

const request = { drain: false, onPendingApprovals: 'deny' } as const;

test('a cancel aborts with the code cancelled and a drain does not abort', () => {
  const signals = new RunSignals(new AbortController().signal, systemClock);
  signals.cancel({ ...request, drain: true });
  expect(signals.signal.aborted).toBe(false);
  expect(signals.cancelRequest?.drain).toBe(true);
  signals.cancel(request);
  expect(signals.signal.reason).toMatchObject({ code: 'cancelled' });
  expect(signals.cancelRequest?.drain).toBe(false);
});

test('a drain does not soften a cancel that came before it', () => {
  const signals = new RunSignals(new AbortController().signal, systemClock);
  signals.cancel(request);
  signals.cancel({ ...request, drain: true });
  expect(signals.cancelRequest?.drain).toBe(false);
});

test('losing the lock is remembered even after a cancel', () => {
  const outer = new AbortController();
  const signals = new RunSignals(outer.signal, systemClock);
  signals.cancel(request);
  outer.abort(new RunError('lock_lost', 'gone'));
  expect(signals.lost).toBe(true);
});

test('a worker that shuts down asks for a handover, not for a cancel', () => {
  const outer = new AbortController();
  const signals = new RunSignals(outer.signal, systemClock);
  outer.abort(new RunError('worker_lost', 'shutting down'));
  expect(signals.handOver).toBe(true);
  expect(signals.lost).toBe(false);
  expect(signals.signal.aborted).toBe(true);
});

test('a wall-clock limit that has passed aborts at once and names the limit', () => {
  const signals = new RunSignals(new AbortController().signal, systemClock);
  signals.limitWallTime(1_000, 1_500);
  expect(signals.signal.reason).toMatchObject({ code: 'run_timeout' });
  expect(signals.wallTimeMs).toBe(1_000);
});

const cancel: CancelRequest = { drain: false, onPendingApprovals: 'deny' };

function makeWorld(flags: Map<string, CancelRequest>) {
  let publish: (runId: string, request: CancelRequest) => void = () => {};
  const ports = {
    log: silentLog,
    control: { onCancel: (listener: typeof publish) => ((publish = listener), { [Symbol.dispose]() {} }) },
    runs: { pendingCancels: async () => flags },
  };
  return { watch: new CancelWatch(ports as unknown as Ports), publish: (runId: string) => publish(runId, cancel) };
}

test('a cancel over the channel reaches only the run that it names', () => {
  const { watch, publish } = makeWorld(new Map());
  using _ = watch;
  const received: string[] = [];
  watch.watch('a', () => received.push('a'));
  watch.watch('b', () => received.push('b'));
  publish('b');
  expect(received).toEqual(['b']);
});

test('a flag is found although the channel stays silent', async () => {
  const { watch } = makeWorld(new Map([['a', cancel]]));
  using _ = watch;
  let received = 0;
  watch.watch('a', () => (received += 1));
  await until('the poll', () => received > 0);
  expect(received).toBe(1);
});

test('the end of a wall time is for a closing call where one is asked for, and only there', async () => {
  const clock = new FakeClock();
  const [closing, plain] = [true, false].map((closes) => {
    const signals = new RunSignals(new AbortController().signal, clock);
    signals.limitWallTime(10_000, 0, closes);
    return signals;
  });
  await clock.advance(8_000);
  expect(closing?.landing.reason).toMatchObject({ code: 'run_timeout' });
  expect(closing?.signal.aborted).toBe(false);
  expect(plain?.landing.aborted).toBe(false);
  await clock.advance(2_000);
  expect(closing?.signal.reason).toMatchObject({ code: 'run_timeout' });
});
