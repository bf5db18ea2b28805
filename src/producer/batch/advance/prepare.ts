import { asRunError } from '../../../shared/base/errors.ts';
import { fileTtlS } from '../../../shared/contract/files.ts';
import { usdToMicrocents } from '../../../shared/contract/money.ts';
import { defaultQueue } from '../../../shared/contract/queues.ts';
import { maxBatchLines } from '../../../shared/contract/run.ts';
import type { BatchProblem } from '../../../shared/contract/batch-record.ts';
import { quoteOf } from '../quote.ts';
import type { OwnBatch } from './own-batch.ts';
import { Pass } from './pass.ts';

/** Counts the lines of the file. One that cannot be read as lines fails the batch before the first of them. */
export async function validateFile(own: OwnBatch): Promise<void> {
  const counted = await countLines(own);
  own.stop.throwIfAborted();
  if ('problem' in counted) return await failBatch(own, counted.problem);
  const { lines: total, bytes } = counted;
  const now = own.ports.clock.now();
  if (own.record.request.quote) await own.move('quoting', { total, bytes, since: now });
  else await own.move('in_progress', { total, bytes, since: now, inProgressAt: now });
}

async function countLines(own: OwnBatch): Promise<{ lines: number; bytes: number } | { problem: BatchProblem }> {
  let [lines, bytes] = [0, 0];
  try {
    for await (const [, line] of own.input.all()) {
      own.stop.throwIfAborted();
      lines += 1;
      bytes += line.length;
      if (lines > maxBatchLines) return { problem: tooMany };
    }
  } catch (thrown) {
    const { code, message } = asRunError(thrown);
    if (code !== 'validation' && code !== 'not_found') throw thrown;
    return { problem: { code, message, param: 'input_file_id' } };
  }
  return lines === 0 ? { problem: noLines } : { lines, bytes };
}

const tooMany: BatchProblem = {
  code: 'validation',
  message: `the file has more than ${maxBatchLines} lines: make several batches of it`,
  param: 'input_file_id',
};
const noLines: BatchProblem = { code: 'validation', message: 'the file has no lines', param: 'input_file_id' };

async function failBatch(own: OwnBatch, problem: BatchProblem): Promise<void> {
  const { stay, ports, record } = own;
  const now = ports.clock.now();
  const change = { endedAt: now, errors: [problem] };
  if (!(await ports.store.end(stay, record, 'failed', change, Math.ceil(now / 1_000) + fileTtlS))) throw own.lose();
  ports.onStatus({ ...record, ...change, status: 'failed' }, record.status);
  throw own.lose();
}

/** Runs the sample, and says from it what the batch is likely to cost and how long it is likely to take. */
export async function quoteBatch(own: OwnBatch): Promise<void> {
  const { request, total, bytes, maxOpen } = own.record;
  if (!request.quote) return void (await own.move('in_progress'));
  const { lines, maxCostUsd } = request.quote;
  const sample = sampleOf(total, lines);
  const pass = new Pass(own, (place) => sample.has(place));
  if (!(await pass.run()) || !(await pass.settled())) return;
  const room = await own.ports.roomOf(request.queue ?? defaultQueue);
  const found = await own.ports.store.sample(own.stay.id);
  const now = own.ports.clock.now();
  const { createdAt, since } = own.record;
  const quote = quoteOf(found, {
    lines: total,
    bytes,
    maxOpen,
    ...room,
    elapsedMs: now - createdAt,
    sampleMs: now - since,
  });
  if (maxCostUsd === undefined) return void (await own.move('quoted', { quote, reason: 'quote' }));
  if (usdToMicrocents(quote.costUsd.high) <= usdToMicrocents(maxCostUsd))
    await own.move('in_progress', { quote, since: now, inProgressAt: now });
  else await own.move('quoted', { quote, reason: 'over_max_cost' });
}

/** Places of so many lines, spread evenly over the file. */
export function sampleOf(total: number, lines: number): ReadonlySet<number> {
  const size = Math.min(total, lines);
  return new Set(Array.from({ length: size }, (_, i) => Math.floor(((i + 0.5) * total) / size)));
}
