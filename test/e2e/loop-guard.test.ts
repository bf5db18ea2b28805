import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import type { EventOf, RunEvent } from '../../src/shared/contract/event.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';

const shared = shareWorld({ producer: true });
const looks = { calls: [{ name: 'look', args: { id: 'same' } }] };
/** Warned after two, without the tool after three: people are asked after four. */
const circle = Array.from({ length: 30 }, () => looks);

async function suspended(world: World, run: RunHandle) {
  return await until(
    `run ${run.runId} waits`,
    async () => {
      const view = await world.mill.get(run.runId);
      return view.status === 'suspended' ? view : undefined;
    },
    45_000,
  );
}

async function eventsOf<T extends RunEvent['type']>(world: World, { runId }: RunHandle, type: T) {
  const events: EventOf<T>[] = [];
  for await (const event of world.mill.events(runId)) if (event.type === type) events.push(event as EventOf<T>);
  return events;
}

test('a run that goes in circles waits for a person, survives its worker, and goes on after a grant', async () => {
  const world = await makeWorld();
  const run = await world.submit('circling', [...circle.slice(0, 4), { text: 'It is blue.' }]);
  const { pending } = await suspended(world, run);
  expect(pending).toMatchObject([{ kind: 'approval', toolName: 'look', args: { id: 'same' } }]);
  expect(pending[0]?.reason).toContain('look failed');
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  const env = { REDIS_URL: world.fleet.redisUrl, MILLRACE_PREFIX: world.fleet.prefix };
  expect((await millrace(['approvals'], { env })).stdout).toContain(run.runId);
  const approved = await millrace(['approve', run.runId, pending[0]?.toolCallId ?? '', '--by', 'ada'], { env });
  expect(approved).toMatchObject({ code: 0 });
  await world.addWorker();
  expect(await run.result()).toMatchObject({ status: 'completed', text: 'It is blue.' });
  const rungs = await eventsOf(world, run, 'agent.loop.detected');
  expect(rungs.map(({ stepNumber, action }) => [stepNumber, action])).toEqual([
    [2, 'nudge'],
    [3, 'withdraw'],
    [4, 'suspend'],
  ]);
  expect(await eventsOf(world, run, 'tool.approval.granted')).toMatchObject([{ by: 'ada' }]);
  expect(world.provider.callsOf(run.runId).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
});

test('a denial over HTTP ends the run with no_progress, and other arguments for it are refused', async () => {
  const { world } = shared;
  const run = await world.submit('circling', circle);
  const { pending } = await suspended(world, run);
  const toolCallId = pending[0]?.toolCallId;
  const decide = (approval: Record<string, unknown>) =>
    call('POST', `${world.url}/v1/runs/${run.runId}/decisions`, { approvals: [{ toolCallId, ...approval }] });
  expect((await decide({ granted: true, updatedArgs: { id: 'other' } })).status).toBe(400);
  expect((await decide({ granted: false, reason: 'enough' })).status).toBe(202);
  const outcome = await run.result();
  expect(outcome).toMatchObject({ status: 'failed', error: { code: 'no_progress', retryable: false } });
  expect(await eventsOf(world, run, 'tool.approval.denied')).toMatchObject([{ reason: 'enough' }]);
  // Redriven, it has a new ladder.
  await world.mill.redrive({ runId: run.runId });
  const again = await suspended(world, run);
  expect(again.pending[0]?.toolCallId).not.toBe(toolCallId);
  expect(world.provider.callsOf(run.runId).length).toBeGreaterThan(4);
  await world.mill.cancel(run.runId);
});

test('an operator switches the guard on for agents that say nothing about it', async () => {
  const world = await makeWorld({ env: { LOOP_GUARD: 'on' } });
  const run = await world.submit('hands', circle);
  const { pending } = await suspended(world, run);
  await run.deny({ calls: pending[0]?.toolCallId ?? '' });
  expect(await run.result()).toMatchObject({ status: 'failed', error: { code: 'no_progress' } });
  const rungs = await eventsOf(world, run, 'agent.loop.detected');
  expect(rungs.map(({ stepNumber, action }) => [stepNumber, action])).toEqual([
    [3, 'nudge'],
    [5, 'withdraw'],
    [7, 'suspend'],
    [7, 'fail'],
  ]);
});
