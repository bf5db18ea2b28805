import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { batchIs } from '../support/batches.ts';
import { planInput } from '../support/plan.ts';
import { makeWorld } from '../support/world.ts';
import { Millrace } from '../../src/producer/index.ts';

const count = 50_000;
/** So many lines are refused for each that runs: the file is what is to be large. */
const refusedForEach = 50;
const lineBytes = 4_000;
const mb = 1024 * 1024;
/** Without a bound the collector lets garbage lie for as long as there is room. */
const heap = '--max-old-space-size=128';
const mostMb = 400;

function rssMb(pid: number): number {
  const [, kb = '0'] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kb) / 1024);
}

async function* lines(many: number): AsyncGenerator<Buffer> {
  for (let i = 0; i < many; i++) {
    const filler = 'x'.repeat(lineBytes);
    const refused = i % refusedForEach !== 0;
    const request = refused
      ? { id: `l${i}`, agent: 'plain', input: filler, metadata: { password: 'p' } }
      : { id: `l${i}`, agent: 'plain', input: planInput({ text: `answer ${i}` }) };
    yield Buffer.from(`${JSON.stringify(request)}\n`);
  }
}

test('a producer advances a batch of 50,000 lines and 200 MB with flat memory', { timeout: 1_200_000 }, async () => {
  const store = mkdtempSync(join(tmpdir(), 'millrace-files-'));
  onTestFinished(() => rmSync(store, { recursive: true, force: true }));
  const world = await makeWorld({ workers: 1, env: { ARTIFACT_STORE: `file:${store}` } });
  const { child, url } = await world.fleet.startProducer({ NODE_OPTIONS: heap });
  const mill = new Millrace({ url });
  onTestFinished(() => mill.close());
  /** Runs so many lines, and answers the most that the producer took meanwhile, in MB. */
  const peakOf = async (many: number): Promise<number> => {
    let peak = 0;
    const watch = setInterval(() => (peak = Math.max(peak, rssMb(child.pid))), 100);
    const file = await mill.files.upload(lines(many), { filename: 'large.jsonl', purpose: 'batch' });
    const { id } = await mill.batches.create({ input_file_id: file.id, endpoint: '/v1/runs' });
    const ended = await batchIs(mill, id, ['completed'], 1_100_000);
    clearInterval(watch);
    const counts = { total: many, completed: many / refusedForEach, failed: many - many / refusedForEach };
    expect(ended.request_counts).toEqual(counts);
    expect(await idsIn(mill, ended.output_file_id as string)).toBe(many);
    process.stdout.write(`${Math.round(file.bytes / mb)} MB in ${many} lines: the producer took ${peak} MB at most\n`);
    return peak;
  };
  await peakOf(count / 5);
  expect(await peakOf(count)).toBeLessThan(mostMb);
});

/** How many different lines the file has results of. */
async function idsIn(mill: Millrace, fileId: string): Promise<number> {
  const seen = new Set<string>();
  let rest = '';
  for await (const bytes of mill.files.content(fileId)) {
    const texts = (rest + Buffer.from(bytes).toString('utf8')).split('\n');
    rest = texts.pop() ?? '';
    for (const text of texts) seen.add((JSON.parse(text) as { id: string }).id);
  }
  return seen.size;
}
