import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { shareWorld } from '../support/world.ts';

const shared = shareWorld({ producer: true });

const deadlineMs = 1_500;
const charge = { calls: [{ name: 'charge', args: { id: 'c' } }] };

test('a deadline ends a run wherever it is: on a worker, waiting for people, or behind another in its thread', async () => {
  const { world } = shared;
  const lockOwner = await world.submit('plain', [{ text: 'later', hold: { gate: 'lockOwner', afterPieces: 0 } }], {
    thread: 'late',
  });
  await world.provider.gates.reached('lockOwner');
  const runs = {
    working: await world.submit('plain', [{ text: 'never', hold: { gate: 'works', afterPieces: 0 } }], { deadlineMs }),
    asking: await world.submit('gated', [charge, { text: 'never' }], { deadlineMs, thread: 'asking' }),
    behind: await world.submit('plain', [{ text: 'never' }], { deadlineMs, thread: 'late' }),
  };
  for (const [where, run] of Object.entries(runs)) {
    await until(`${where}: the run has ended`, async () => (await run.get()).endedAt !== undefined);
    const observed = await world.ended(run);
    expect(observed.view, where).toMatchObject({ status: 'failed', error: { code: 'deadline_exceeded' } });
    expect(observed.events.at(-1)?.type).toBe('run.failed');
    expect(Date.parse(observed.view.endedAt ?? '')).toBeGreaterThanOrEqual(Date.parse(observed.view.deadlineAt ?? ''));
  }
  expect(eventsOf(await world.ended(runs.behind), 'run.started')).toEqual([]);

  world.provider.gates.open('lockOwner');
  expect((await lockOwner.result()).status).toBe('completed');
  const next = await world.submit('plain', [{ text: 'next' }], { thread: 'late' });
  expect((await next.result()).text).toBe('next');
});

test('a run past its deadline is only redriven with a new one', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [charge, { text: 'paid' }], { deadlineMs: 500 });
  expect((await run.result()).error?.code).toBe('deadline_exceeded');
  await expect(world.mill.redrive({ runId: run.runId })).rejects.toMatchObject({
    code: 'deadline_exceeded',
    message: expect.stringContaining('deadlineMs'),
  });
  expect((await world.mill.redrive({ errorCode: 'deadline_exceeded' })).late).toContain(run.runId);
  await world.mill.redrive({ runId: run.runId, deadlineMs: 60_000 });
  await until('it asks again', async () => (await run.get()).status === 'suspended');
  const { pending } = await run.get();
  await world.mill.decide(run.runId, {
    approvals: pending.map(({ toolCallId = '' }) => ({ toolCallId, granted: true })),
  });
  await until('it has its answer', async () => (await run.get()).status === 'completed');
});

test('a deadline that leaves a delayed run no time is refused', async () => {
  const { world } = shared;
  const answer = await call('POST', `${world.url}/v1/runs`, {
    agent: 'plain',
    input: 'x',
    delayMs: 60_000,
    deadlineMs,
  });
  expect([answer.status, answer.body.error.code]).toEqual([400, 'validation']);
  expect(answer.body.error.details).toMatchObject([{ path: 'deadlineMs' }]);
});
