import { expect, test } from 'vitest';
import type { RunHandle } from '../../src/producer/index.ts';
import { eventsOf } from '../support/check-run.ts';
import { call } from '../support/http.ts';
import { until } from '../support/redis.ts';
import { makeWorld, shareWorld, type World } from '../support/world.ts';
import { millrace } from '../producer/cli/support/cli-process.ts';

const shared = shareWorld({ producer: true });

async function waits(run: RunHandle): Promise<void> {
  await until('the run waits', async () => (await run.get()).status === 'suspended');
}

const cli = (world: World, args: readonly string[]) =>
  millrace(args, { env: { REDIS_URL: world.fleet.redisUrl, MILLRACE_PREFIX: world.fleet.prefix } });

test('a run whose workers are all gone goes on elsewhere, with the arguments of the approval', async () => {
  const world = await makeWorld();
  const run = await world.submit('gated', [
    {
      calls: [
        { name: 'look', args: { id: 'l' } },
        { name: 'charge', args: { id: 'asked' } },
      ],
    },
    { text: 'It is paid.' },
  ]);
  await waits(run);
  expect(world.fleet.executions.map(({ tool }) => tool)).toEqual(['look']);
  world.worker.signal('SIGKILL');
  await world.worker.exited;
  const { pending } = await run.get();
  expect(pending).toMatchObject([{ kind: 'approval', toolName: 'charge', args: { id: 'asked' } }]);

  const args = JSON.stringify({ id: 'edited' });
  const approved = await cli(world, [
    'approve',
    run.runId,
    pending[0]?.toolCallId ?? '',
    '--args',
    args,
    '--by',
    'ada',
  ]);
  expect(approved).toMatchObject({ code: 0 });
  await world.addWorker();
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'It is paid.' } });
  expect(observed.executions.map(({ tool, id }) => [tool, id])).toEqual([
    ['look', 'l'],
    ['charge', 'edited'],
  ]);
  expect(eventsOf(observed, 'tool.approval.granted')).toMatchObject([{ toolName: 'charge', by: 'ada', edited: true }]);
  const seen = world.provider.callsOf(run.runId);
  expect(seen.map(({ step }) => step)).toEqual([1, 2]);
});

test('twenty people who approve at once make one resume', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [{ calls: [{ name: 'charge', args: { id: 'c' } }] }, { text: 'Done.' }]);
  await waits(run);
  const [item] = (await run.get()).pending;
  const decide = () =>
    call('POST', `${world.url}/v1/runs/${run.runId}/decisions`, {
      approvals: [{ toolCallId: item?.toolCallId, granted: true }],
    });
  const answers = await Promise.all(Array.from({ length: 20 }, decide));
  const observed = await world.ended(run);
  expect(eventsOf(observed, 'run.resumed')).toHaveLength(1);
  expect(observed.executions).toHaveLength(1);
  for (const { status } of answers) expect([202, 409]).toContain(status);
});

test('what was decided first runs first, and the run waits for the rest', async () => {
  const { world } = shared;
  const charges = [1, 2, 3].map((n) => ({ name: 'charge', args: { id: `c${n}` } }));
  const asked = [...charges, { name: 'look', args: { id: 'l' } }];
  const run = await world.submit('gated', [{ calls: asked }, { text: 'Done.' }]);
  await waits(run);
  const ids = (await run.get()).pending.map(({ toolCallId }) => toolCallId);
  expect(ids).toHaveLength(3);
  await run.approve({ calls: ids[0] ?? '' });
  await until('one call was made, two wait', async () => {
    const { status, pending } = await run.get();
    return status === 'suspended' && pending.length === 2;
  });
  expect(world.fleet.executions.filter(({ runId }) => runId === run.runId).map(({ id }) => id)).toEqual(['l', 'c1']);
  await run.deny({ calls: ids[1] ?? '', reason: 'not this one' });
  await run.approve({ calls: ids[2] ?? '' });
  const observed = await world.ended(run);
  expect(observed.executions.map(({ id }) => id)).toEqual(['l', 'c1', 'c3']);
  expect(eventsOf(observed, 'tool.approval.denied')).toMatchObject([{ reason: 'not this one' }]);
  expect(eventsOf(observed, 'tool.approval.requested')).toHaveLength(3);
  const ends = eventsOf(observed, 'tool.execute.end').map(({ toolCallId }) => toolCallId);
  expect(ends, 'each end is emitted once').toEqual([...new Set(ends)]);
  expect(observed.view.status).toBe('completed');
});

test('a call without a decision is denied when its time is over', async () => {
  const { world } = shared;
  const run = await world.submit('hasty', [{ calls: [{ name: 'charge', args: { id: 'c' } }] }, { text: 'Too late.' }]);
  const observed = await world.ended(run);
  expect(observed.executions).toEqual([]);
  expect(eventsOf(observed, 'tool.approval.denied')).toMatchObject([{ reason: 'expired' }]);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'Too late.' } });
});

test('the answer to a question is what the model gets', async () => {
  const { world } = shared;
  const question = { question: 'Which colour?' };
  const run = await world.submit('gated', [{ calls: [{ name: 'ask_user', args: question }] }, { text: 'Blue it is.' }]);
  await waits(run);
  const [item] = (await run.get()).pending;
  expect(item).toMatchObject({ kind: 'user_input', reason: 'Which colour?' });
  const answers = [{ questionId: item?.toolCallId, text: 'blue' }];
  const answer = await call('POST', `${world.url}/v1/runs/${run.runId}/decisions`, { answers });
  expect(answer.status).toBe(202);
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  const last = world.provider.callsOf(run.runId).at(-1);
  expect(JSON.stringify(last)).toContain('blue');
});

test('a run that is cancelled while it waits runs nothing', async () => {
  const { world } = shared;
  const run = await world.submit('gated', [{ calls: [{ name: 'charge', args: { id: 'c' } }] }]);
  await waits(run);
  await run.cancel();
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('cancelled');
  expect(observed.executions).toEqual([]);
});
