import { expect, test } from 'vitest';
import { eventsOf } from '../support/check-run.ts';
import { until } from '../support/redis.ts';
import { makeWorld } from '../support/world.ts';

test('a worker killed in the middle of an answer costs that one call and nothing else', async () => {
  const world = await makeWorld({ workers: 2, env: { STREAM_FLUSH_MS: '0' } });
  const gate = 'mid-token';
  const run = await world.submit('plain', [{ text: 'one two three four', hold: { gate, afterPieces: 2 } }]);
  await world.provider.gates.reached(gate);
  const killed = await world.workerOf(run);
  await killed.kill();
  world.provider.gates.open(gate);
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'one two three four' }, recoveries: 1 });
  expect(world.provider.callsOf(run.runId)).toHaveLength(2);
  // Subscribers must drop the words of the attempt that was lost.
  expect(eventsOf(observed, 'run.recovered')).toMatchObject([
    { previousWorker: expect.stringContaining(`-${killed.pid}-`) },
  ]);
  expect(eventsOf(observed, 'step.reset')).toMatchObject([{ stepNumber: 1 }]);
});

test('a once tool whose worker was killed is not repeated, and the run reports an unknown outcome', async () => {
  const world = await makeWorld({ workers: 2 });
  const run = await world.submit('hands', [
    { calls: [{ name: 'charge', args: { id: 'c', gate: 'never' } }] },
    { text: 'I do not know.' },
  ]);
  await world.toolWorks(run);
  await (await world.workerOf(run)).kill();
  const observed = await world.ended(run);
  expect(observed.view).toMatchObject({ status: 'completed', result: { text: 'I do not know.' } });
  expect(observed.executions).toHaveLength(1);
  expect(eventsOf(observed, 'tool.outcome_unknown')).toMatchObject([
    { toolName: 'charge', key: observed.executions[0]?.key },
  ]);
  expect(world.provider.callsOf(run.runId, 1)).toHaveLength(1);
  const result = world.provider.callsOf(run.runId, 2)[0]?.messages.at(-1);
  expect(result).toMatchObject({ role: 'tool', content: expect.stringMatching(/unknown/i) });
});

test.each(['put', 'look'])('the tool %s of a killed worker runs again with the same key', async (tool) => {
  const world = await makeWorld({ workers: 2 });
  const run = await world.submit('hands', [
    { calls: [{ name: tool, args: { id: 'x', gate: 'again' } }] },
    { text: 'Done.' },
  ]);
  await world.toolWorks(run);
  await (await world.workerOf(run)).kill();
  await world.toolWorks(run, 2);
  world.fleet.openGate('again');
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  expect(observed.executions).toHaveLength(2);
  expect(new Set(observed.executions.map(({ key }) => key)).size).toBe(1);
  expect(new Set(observed.executions.map(({ pid }) => pid)).size).toBe(2);
  expect(eventsOf(observed, 'tool.outcome_unknown')).toEqual([]);
  expect(world.provider.callsOf(run.runId, 1)).toHaveLength(1);
});

test('each tool of one step is treated by its own class after a kill', async () => {
  const world = await makeWorld({ workers: 2 });
  const calls = [
    { name: 'charge', args: { id: 'finished' } },
    { name: 'charge', args: { id: 'cut', gate: 'never' } },
    { name: 'put', args: { id: 'p', gate: 'go' } },
  ];
  const run = await world.submit('hands', [{ calls }, { text: 'Done.' }]);
  await world.toolWorks(run, 3);
  for await (const event of run.events()) if (event.type === 'tool.execute.end') break;
  await (await world.workerOf(run)).kill();
  world.fleet.openGate('go');
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  expect(observed.executions.map(({ tool, id }) => `${tool} ${id}`).sort()).toEqual([
    'charge cut',
    'charge finished',
    'put p',
    'put p',
  ]);
  expect(eventsOf(observed, 'tool.outcome_unknown')).toHaveLength(1);
});

test('a worker killed between a tool result and the next call repeats neither the tool nor the first call', async () => {
  // A worker that a busy machine starves for longer than its lease loses the run before the kill.
  const world = await makeWorld({ workers: 2, env: { LOCK_DURATION_MS: '8000' } });
  const gate = 'second-request';
  const run = await world.submit('hands', [
    {
      calls: [
        { name: 'charge', args: { id: 'c' } },
        { name: 'put', args: { id: 'p' } },
      ],
    },
    { text: 'Done.', hold: { gate, afterPieces: 0 } },
  ]);
  await world.provider.gates.reached(gate);
  await (await world.workerOf(run)).kill();
  await until('another worker asks again', () => world.provider.callsOf(run.runId, 2).length === 2);
  world.provider.gates.open(gate);
  const observed = await world.ended(run);
  expect(observed.view.status).toBe('completed');
  expect(observed.executions).toHaveLength(2);
  expect(world.provider.callsOf(run.runId, 1)).toHaveLength(1);
  expect(eventsOf(observed, 'tool.outcome_unknown')).toEqual([]);
});

test('workers killed right after runs have ended end no run twice', async () => {
  const world = await makeWorld({ workers: 2 });
  const runs = await Promise.all(Array.from({ length: 20 }, (_, i) => world.submit('plain', [{ text: `Run ${i}` }])));
  const ends: string[] = [];
  for await (const event of world.mill.run(runs[0]?.runId as string).events()) ends.push(event.type);
  const first = await world.workerOf(runs[0] as { runId: string });
  await first.kill();
  for (const run of runs) expect((await world.ended(run)).view.status).toBe('completed');
  // The killed worker's jobs may still be active in the queue; the next worker finds the runs ended.
  await until('the queue is empty', async () => {
    const { runs: depth } = await world.mill.queueDepths();
    return depth?.active === 0 && depth.waiting === 0;
  });
  for (const run of runs) await world.ended(run);
});
