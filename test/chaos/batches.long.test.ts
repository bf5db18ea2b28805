import { expect, test } from 'vitest';
import { batchIs, fileLines, submitBatch } from '../support/batches.ts';
import { planInput } from '../support/plan.ts';
import { until } from '../support/redis.ts';
import { makeWorld, type World } from '../support/world.ts';

const count = 2_000;
const endMs = 150_000;
const lines = Array.from({ length: count }, (_, i) => ({
  custom_id: `c-${i}`,
  agent: 'plain',
  input: planInput({ text: `answer ${i}` }),
}));

async function doneIn({ mill }: World, id: string, least: number): Promise<void> {
  const probe = async () => {
    const { request_counts: counts } = await mill.batches.get(id);
    return counts.completed + counts.failed >= least;
  };
  await until(`${least} lines have their outcome`, probe, endMs);
}

test('every line has one outcome, whichever producers and workers die', async () => {
  const world = await makeWorld({ workers: 2 });
  const { mill, fleet } = world;
  const producers = [(await fleet.startProducer()).child];
  const { id } = await submitBatch(mill, lines, { name: 'night', maxOpen: 150 });
  const killing = { done: false };
  const killWorkers = async () => {
    while (!killing.done) {
      await new Promise((resolve) => setTimeout(resolve, 3_000));
      if (killing.done) return;
      const [oldest] = world.workers.splice(0, 1);
      await world.addWorker();
      await oldest?.kill();
    }
  };
  const workers = killWorkers();
  try {
    for (const share of [0.2, 0.5]) {
      await doneIn(world, id, count * share);
      producers.push((await fleet.startProducer()).child);
      await producers.shift()?.kill();
    }
    const ended = await batchIs(mill, id, ['completed'], endMs);
    expect(ended.request_counts).toEqual({ total: count, completed: count, failed: 0 });
    const output = await fileLines(mill, ended.output_file_id);
    expect(output).toHaveLength(count);
    expect(new Set(output.map((line) => line['custom_id'] ?? line['id'])).size).toBe(count);
    for (const { text, line } of output) expect(text).toBe(`answer ${Number(line) - 1}`);
    const cost = output.reduce((sum, line) => sum + Number(line['costMicrocents']), 0);
    expect(ended.cost.microcents).toBe(cost);
    const runIds = new Set(output.map((line) => String(line['runId'])));
    expect(runIds.size).toBe(count);
    expect((await mill.budgets.get('batch', 'night')).spentMicrocents).toBeGreaterThanOrEqual(cost);
  } finally {
    killing.done = true;
    await workers;
  }
});

test('a producer that was stopped for longer than its lease writes nothing of the batch that another one has by then', async () => {
  const world = await makeWorld({ workers: 1 });
  const { mill, fleet } = world;
  const first = (await fleet.startProducer()).child;
  const { id } = await submitBatch(mill, lines, { maxOpen: 40 });
  await doneIn(world, id, 200);
  first.signal('SIGSTOP');
  const second = (await fleet.startProducer()).child;
  await doneIn(world, id, 700);
  first.signal('SIGCONT');
  const ended = await batchIs(mill, id, ['completed'], endMs);
  expect(ended.request_counts).toEqual({ total: count, completed: count, failed: 0 });
  const output = await fileLines(mill, ended.output_file_id);
  expect(new Set(output.map((line) => line['line'])).size).toBe(count);
  expect(output).toHaveLength(count);
  expect(ended.cost.microcents).toBe(output.reduce((sum, line) => sum + Number(line['costMicrocents']), 0));
  await until('the second one has ended it', () => second.logLines(({ msg }) => msg === 'batch ended').length === 1);
  expect(first.logLines(({ msg }) => msg === 'batch ended')).toEqual([]);
});
