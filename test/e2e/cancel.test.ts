import { expect, test } from 'vitest';
import { type Observed, eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { testRedis, until } from '../support/redis.ts';
import { makeWorld, shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

function expectCancelled({ view, events }: Observed): void {
  expect(view.status).toBe('cancelled');
  expect(events.at(-1)?.type).toBe('run.cancelled');
}

test('a cancel in the middle of an answer closes the connection to the provider', async () => {
  const { world } = shared;
  const gate = 'mid-stream';
  const run = await world.submit('plain', [{ text: 'one two three four', hold: { gate, afterPieces: 2 } }]);
  await world.provider.gates.reached(gate);
  const answer = await call('POST', `${world.url}/v1/runs/${run.runId}/cancel`, { reason: 'changed my mind' });
  expect(answer.status).toBe(202);
  // The gate stays shut: only the worker can have ended this call.
  await until(
    'the provider sees the connection closed',
    () => world.provider.callsOf(run.runId)[0]?.ended === 'closed',
  );
  const observed = await world.ended(run);
  expectCancelled(observed);
  const [end] = eventsOf(observed, 'run.cancelled');
  expect(end).toMatchObject({
    drained: false,
    reason: 'changed my mind',
    partial: expect.stringMatching(/^one two ?$/),
  });
  // What was shown of the answer stays.
  expect(observed.view.unfinished).toMatchObject({ text: end?.partial, results: [] });
});

test('a cancel before the first byte of an answer closes the connection as well', async () => {
  const { world } = shared;
  const gate = 'before-first-byte';
  const run = await world.submit('plain', [{ text: 'never', hold: { gate, afterPieces: 0 } }]);
  await world.provider.gates.reached(gate);
  await run.cancel();
  await until(
    'the provider sees the connection closed',
    () => world.provider.callsOf(run.runId)[0]?.ended === 'closed',
  );
  expectCancelled(await world.ended(run));
});

test.each([
  { tool: 'look', what: 'listens to its signal' },
  { tool: 'stubborn', what: 'does not listen to its signal' },
])('a cancel ends a run whose tool $what', async ({ tool }) => {
  const { world } = shared;
  const run = await world.submit('hands', [
    { calls: [{ name: tool, args: { id: tool, gate: 'never-opens' } }] },
    { text: 'unreachable' },
  ]);
  await world.toolWorks(run);
  await run.cancel();
  const observed = await world.ended(run);
  expectCancelled(observed);
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});

test('a cancel while a once tool works says that its outcome is unknown', async () => {
  const { world } = shared;
  const run = await world.submit('hands', [
    { calls: [{ name: 'charge', args: { id: 'c', gate: 'never-opens' } }] },
    { text: 'unreachable' },
  ]);
  await world.toolWorks(run);
  await run.cancel();
  const observed = await world.ended(run);
  expectCancelled(observed);
  expect(observed.executions).toHaveLength(1);
  // Its signal was aborted, but whether it took effect is unknown.
  expect(eventsOf(observed, 'tool.outcome_unknown')).toMatchObject([
    { toolName: 'charge', key: observed.executions[0]?.key },
  ]);
});

test('a drain lets the step end and then stops', async () => {
  const { world } = shared;
  const gate = 'drain';
  const run = await world.submit('hands', [
    { calls: [{ name: 'put', args: { id: 'p', gate } }] },
    { text: 'unreachable' },
  ]);
  await world.toolWorks(run);
  const asked = await run.cancel({ drain: true });
  expect(asked).toMatchObject({ status: 'running', cancelling: true });
  world.fleet.openGate(gate);
  const observed = await world.ended(run);
  expectCancelled(observed);
  expect(eventsOf(observed, 'run.cancelled')[0]).toMatchObject({ drained: true });
  expect(eventsOf(observed, 'agent.cancelling')).toMatchObject([{ drain: true, onPendingApprovals: 'deny' }]);
  expect(eventsOf(observed, 'tool.execute.end')).toHaveLength(1);
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});

test('a cancel without drain overrides one with it', async () => {
  const { world } = shared;
  const run = await world.submit('hands', [{ calls: [{ name: 'look', args: { id: 'l', gate: 'never-opens' } }] }]);
  await world.toolWorks(run);
  await run.cancel({ drain: true });
  await run.cancel();
  const observed = await world.ended(run);
  expectCancelled(observed);
  expect(eventsOf(observed, 'run.cancelled')[0]?.drained).toBe(false);
});

test('a run that waits in the queue is cancelled at once and never reaches a model', async () => {
  const world = await makeWorld({ workers: 0 });
  const queued = await world.submit('plain', [{ text: 'never' }]);
  const delayed = await world.submit('plain', [{ text: 'never' }], { delayMs: 3_600_000 });
  for (const run of [queued, delayed]) {
    expect((await run.cancel()).status).toBe('cancelled');
    expectCancelled(await world.ended(run));
  }
  await world.addWorker();
  const after = await world.submit('plain', [{ text: 'I ran.' }]);
  expect((await world.ended(after)).view.status).toBe('completed');
  expect(world.provider.calls.map((seen) => seen.runId)).toEqual([after.runId]);
  const { queues } = await world.mill.diagnose();
  expect(queues['runs']).toMatchObject({ waiting: 0, delayed: 0 });
});

test('a run that waits for people is cancelled without a worker, and counted by the producer that ended it', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [{ calls: [{ name: 'charge', args: { id: 'c' } }] }]);
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  expect((await call('POST', `${world.url}/v1/runs/${run.runId}/cancel`)).status).toBe(202);
  const observed = await world.ended(run);
  expectCancelled(observed);
  expect(eventsOf(observed, 'agent.end')).toHaveLength(1);
  const metrics = await (await fetch(`${world.url}/metrics`)).text();
  expect(metrics).toContain('millrace_runs_total{agent="gated",kind="agent.turn",status="cancelled"} 1');
});

test('a run of a thread that waits for people is on no list of those once it is cancelled', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [{ calls: [{ name: 'charge', args: { id: 'c' } }] }], { thread: 'asked' });
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  const redis = await testRedis('work', world.fleet.redisUrl);
  const list = keysFor(world.fleet.prefix).asking('default');
  expect(await redis.zscore(list, run.runId)).not.toBeNull();
  await run.cancel();
  const observed = await world.ended(run);
  expectCancelled(observed);
  expect(eventsOf(observed, 'agent.cancelling')).toMatchObject([{ drain: false, onPendingApprovals: 'deny' }]);
  await until('it is on no list', async () => (await redis.zscore(list, run.runId)) === null);
});

test('a run that waits between two attempts is cancelled during the wait', async () => {
  const { world } = shared;
  const faults = [{ kind: 'status', status: 429, retryAfterS: 60 }] as const;
  // A model of its own: the refusal keeps everybody else from calling this one.
  const run = await world.submit('plain', [{ text: 'never', faults }], { overrides: { model: 'gpt-4o' } });
  await until('the first attempt was refused', () => world.provider.callsOf(run.runId).length === 1);
  await run.cancel();
  expectCancelled(await world.ended(run));
  expect(world.provider.callsOf(run.runId)).toHaveLength(1);
});

test('a run that has ended answers a cancel with a conflict, an unknown one with not found', async () => {
  const { world } = shared;
  const run = await world.submit('plain', [{ text: 'done' }]);
  const { events } = await world.ended(run);
  const late = await call('POST', `${world.url}/v1/runs/${run.runId}/cancel`);
  expect([late.status, late.body.error.code]).toEqual([409, 'already_terminal']);
  await expect(run.cancel()).rejects.toMatchObject({ code: 'already_terminal' });
  expect((await world.ended(run)).events).toEqual(events);
  const unknown = await call('POST', `${world.url}/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel`);
  expect([unknown.status, unknown.body.error.code]).toEqual([404, 'run_not_found']);
});
