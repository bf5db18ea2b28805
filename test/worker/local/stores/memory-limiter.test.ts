import { expect, test } from 'vitest';
import { MemoryLimiter } from '../../../../src/worker/local/stores/memory-limiter.ts';
import { aRequest, oneAtATime } from '../../../contract/governor.ts';

/** A limiter whose time stands still until told. */
function world() {
  let now = 1_000_000;
  const limiter = new MemoryLimiter(() => now);
  const ask = (runId: string, limits = oneAtATime, patienceMs = 60_000) =>
    limiter.ask({ request: aRequest(runId, limits), waiter: runId, grantId: `g-${runId}`, patienceMs, freed: 0 });
  const settle = (runId: string) =>
    limiter.settle({ limiter: '', limits: oneAtATime, grantId: `g-${runId}`, ageMs: 0, outcome: {}, freed: 0 });
  return { limiter, ask, settle, pass: (ms: number) => (now += ms) };
}

test('a promise lapses after half a minute, and the run is woken again without it', () => {
  const { limiter, ask, settle, pass } = world();
  ask('a');
  for (const runId of ['b', 'c']) limiter.park(aRequest(runId, oneAtATime));
  settle('a');
  expect(limiter.pump()).toEqual(['b']);
  pass(29_000);
  expect(limiter.pump()).toEqual([]);
  pass(1_000);
  expect(limiter.pump()).toEqual(['b', 'c']);
  expect(ask('c').kind).toBe('granted');
  expect(ask('b').kind).toBe('waiting');
});

test('a promise that nobody takes up costs nothing', () => {
  const { limiter, ask, pass } = world();
  const limits = { requestsPerMinute: 1 };
  limiter.park(aRequest('b', limits));
  expect(limiter.pump()).toEqual(['b']);
  expect(ask('c', limits, 0).kind).toBe('parked');
  pass(30_000);
  expect(ask('d', limits, 0).kind).toBe('granted');
});

test('a run that never comes is forgotten in the end', () => {
  const { limiter, pass } = world();
  limiter.park(aRequest('b', oneAtATime));
  const woken = Array.from({ length: 10 }, () => {
    const runs = limiter.pump();
    pass(30_000);
    return runs.length;
  });
  expect(woken).toEqual([1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
  expect(limiter.idle).toBe(true);
});

test('who is not looked after gives way after four seconds and keeps its place for a minute', () => {
  const { limiter, ask, settle, pass } = world();
  ask('a');
  limiter.poll(oneAtATime, [], ['g-a']);
  ask('b');
  ask('c');
  pass(3_000);
  expect(limiter.poll(oneAtATime, [{ waiter: 'c', grantId: 'g-c' }], []).answers).toEqual([
    { kind: 'waiting', retryMs: 50 },
  ]);
  pass(3_000);
  settle('a');
  expect(limiter.poll(oneAtATime, [{ waiter: 'c', grantId: 'g-c' }], []).answers[0]?.kind).toBe('granted');
  ask('d');
  ask('b');
  settle('c');
  const both = [
    { waiter: 'b', grantId: 'g-b' },
    { waiter: 'd', grantId: 'g-d' },
  ];
  expect(limiter.poll(oneAtATime, both, []).answers.map(({ kind }) => kind)).toEqual(['granted', 'waiting']);
});

test('a grant that its process does not hear of is taken back, one that it renews is not', () => {
  const { limiter, ask, settle, pass } = world();
  ask('a');
  ask('b');
  settle('a');
  pass(4_000);
  expect(ask('c').kind).toBe('granted');
  for (let i = 0; i < 10; i++) {
    pass(20_000);
    limiter.poll(oneAtATime, [], ['g-c']);
  }
  expect(ask('d').kind).toBe('waiting');
  pass(60_000);
  expect(limiter.poll(oneAtATime, [], []).retryMs).toBeGreaterThan(0);
  expect(ask('e').kind).toBe('granted');
});

test('a full minute of 60 requests is used to more than nine tenths, however it begins', () => {
  const { limiter, ask, pass } = world();
  const limits = { requestsPerMinute: 60 };
  let granted = 0;
  let next = 0;
  for (let ms = 0; ms < 600_000; ms += 50) {
    pass(50);
    for (
      ;
      limiter.ask({
        request: aRequest(`r${next}`, limits),
        waiter: `r${next}`,
        grantId: `g-r${next}`,
        patienceMs: 0,
        freed: 0,
      }).kind === 'granted';
      next++
    )
      granted++;
  }
  expect(ask('last', limits, 60_000).kind).toBe('waiting');
  expect(granted).toBeGreaterThan(540);
  expect(granted).toBeLessThanOrEqual(603);
});
