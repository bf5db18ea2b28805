import { expect, test } from 'vitest';
import { until } from '../../../support/redis.ts';
import { playFleet } from '../support.ts';
import type { BatchRequestInput } from '../../../../src/shared/contract/batch.ts';
import { batchWorld, type BatchWorld } from './batch-world.ts';

const endpoint = '/v1/responses';
const wireLines = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    custom_id: `l${i}`,
    method: 'POST',
    url: endpoint,
    body: { model: 'support', input: `input ${i}` },
  }));
// Several parts of a file: what was read before it was deleted is not all of it.
const padding = 'x'.repeat(30_000);
const ownLines = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ id: `l${i}`, input: `input ${i}${padding}` }));
const csv = ['id,input', ...ownLines(40).map(({ id, input }) => `${id},${input}`)].join('\n');

const forms = [
  { name: 'lines of OpenAI', lines: wireLines(40), more: { endpoint } },
  { name: 'lines of ours', lines: ownLines(120), more: {} },
  { name: 'a CSV', lines: csv, more: { filename: 'in.csv' } },
] as const;

/** A batch of five open lines at most. */
async function submit({ mill }: BatchWorld, lines: string | readonly object[], more: object) {
  const text = typeof lines === 'string' ? lines : lines.map((line) => JSON.stringify(line)).join('\n');
  const { filename = 'in.jsonl', ...asked } = more as { filename?: string };
  const { id } = await mill.files.upload(Buffer.from(text), { filename, purpose: 'batch' });
  const ours = { endpoint: '/v1/runs', agent: 'support' };
  return await mill.batches.create({
    ...('endpoint' in asked ? asked : ours),
    input_file_id: id,
    maxOpen: 5,
  } as BatchRequestInput);
}

test.for(forms)(
  'a batch of $name whose file is deleted meanwhile fails, says so, and has the answers that there are',
  async ({ lines, more }) => {
    const world = await batchWorld();
    await world.advance();
    const { id, input_file_id: file } = await submit(world, lines, more);
    await until('lines are open', async () => (await world.mill.batches.get(id)).open.total === 5);
    await world.mill.files.remove(file);
    playFleet(world, (writer) => writer.end());
    const failed = await world.is(id, 'failed');
    expect(failed.errors?.data).toMatchObject([{ code: 'not_found', param: 'input_file_id' }]);
    expect(failed.errors?.data[0]?.message).toContain(file);
    const { total, completed, failed: lost } = failed.request_counts;
    expect(completed + lost).toBe(total);
    expect(lost).toBeGreaterThan(20);
    expect(failed.open.total).toBe(0);
    const isListed = async () => (await world.redis.zscore(world.keys.batchesOpen, id)) !== null;
    await until('no process looks for it any more', async () => !(await isListed()));
  },
);

test('a batch whose file is deleted while it is paused is cancelled all the same', async () => {
  const world = await batchWorld();
  await world.advance();
  const { id, input_file_id: file } = await submit(world, wireLines(40), { endpoint });
  await until('lines are open', async () => (await world.mill.batches.get(id)).open.total === 5);
  await world.mill.batches.pause(id);
  await world.mill.files.remove(file);
  await world.mill.batches.cancel(id);
  const cancelled = await world.is(id, 'cancelled');
  expect(cancelled.request_counts).toEqual({ total: 40, completed: 0, failed: 40 });
});

test('an output that is deleted while its batch is redriven costs the answers of before, and nothing else', async () => {
  const world = await batchWorld();
  const works = { now: false };
  playFleet(world, (writer, input) => writer.end(input.startsWith('input 1x') && !works.now ? 'failed' : 'completed'));
  await world.advance();
  const { id } = await world.submit([...ownLines(3), { id: 'bad' }]);
  const first = await world.is(id, 'completed');
  works.now = true;
  await world.mill.batches.redrive(id);
  await world.mill.files.remove(first.output_file_id as string);
  const again = await until('the failed run is queued again', async () => {
    const { runs } = await world.mill.list({ status: 'queued' });
    return runs[0];
  });
  await world.mill.cancel(again.runId);
  const ended = await world.is(id, 'completed', 'failed');
  expect(ended.status).toBe('completed');
  expect(ended.errors?.data).toMatchObject([{ code: 'not_found', message: expect.stringContaining('answers') }]);
});
