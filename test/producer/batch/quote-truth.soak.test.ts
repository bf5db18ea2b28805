import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { BatchQuote, BatchView } from '../../../src/shared/contract/batch.ts';
import { Fleet } from '../../support/fleet.ts';
import { seeded } from '../../support/seeded.ts';
import { root } from '../cli/support/cli-process.ts';
import { scratchFolder, tableOf } from './support.ts';

const lines = 2_000;
const words = (count: number) => Array.from({ length: count }, (_, index) => `word${index % 90}`).join(' ');

/** Kinds of questions: how long the answer is, and how long each piece of it takes. */
const kinds = [
  { words: 3, deltaMs: 5 },
  { words: 10, deltaMs: 5 },
  { words: 30, deltaMs: 5 },
  { words: 60, deltaMs: 8 },
  { words: 150, deltaMs: 4 },
] as const;

/** Files that differ in what they ask: how many lines are of each kind, and how much the inputs differ in length. */
const files = [
  { name: 'all alike', shares: [0, 1, 0, 0, 0], spread: 0 },
  { name: 'inputs of any length', shares: [0.5, 0.5, 0, 0, 0], spread: 1 },
  { name: 'answers of any length', shares: [0.3, 0.3, 0.2, 0.1, 0.1], spread: 0.3 },
  { name: 'long ones', shares: [0, 0, 0.2, 0.4, 0.4], spread: 0.5 },
  { name: 'most short, some very long', shares: [0.6, 0.25, 0, 0, 0.15], spread: 1.2 },
] as const;

/** The same files each time: in other draws one range in ten may miss, and how many do is counted without running them, in quote.test.ts. */
const draw = 1;

function linesOf({ shares, spread }: (typeof files)[number], stream: number): string {
  const random = seeded(stream, draw);
  const uniform = () => (random.below(2 ** 30) + 0.5) / 2 ** 30;
  const bell = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  return Array.from({ length: lines }, (_, index) => {
    let at = uniform();
    const kind = Math.max(
      0,
      shares.findIndex((share) => (at -= share) < 0),
    );
    const input = `kind-${kind} ${words(Math.min(10_000, Math.round(20 * Math.exp(spread * bell()))))}`;
    return `${JSON.stringify({ id: `${index}`, input })}\n`;
  }).join('');
}

function isWithin(value: number, { low, high }: BatchQuote['costUsd']): boolean {
  return low <= value && value <= high;
}

test('what 2,000 lines cost lies within their own quote, for five different files', async () => {
  const folder = scratchFolder();
  const rules = kinds.map(
    ({ words: count, deltaMs }, index) =>
      `  - when: { user: kind-${index} }\n    answer: { text: ${words(count)}, deltaMs: ${deltaMs} }\n`,
  );
  writeFileSync(join(folder, 'script.yaml'), `rules:\n${rules.join('')}`);
  const fleet = new Fleet({
    env: { MILLRACE_AGENTS: join(root, 'agents'), MILLRACE_SCRIPT: join(folder, 'script.yaml'), LOG_LEVEL: 'warn' },
  });
  onTestFinished(() => fleet.dispose());
  await fleet.startWorker();
  const { mill } = fleet;
  const advancing = await mill.batches.advance();
  onTestFinished(() => advancing[Symbol.asyncDispose]());
  const rows = [];
  for (const [stream, about] of files.entries()) {
    const file = await mill.files.upload(linesOf(about, stream), { filename: 'in.jsonl', purpose: 'batch' });
    const { id } = await mill.batches.create({
      endpoint: '/v1/runs',
      input_file_id: file.id,
      agent: 'summarise',
      quote: { lines: 20 },
    });
    const { quote } = await resting(mill, id);
    if (!quote) throw new Error('there is no quote');
    const restedAt = Date.now();
    await mill.batches.resume(id);
    const waitedS = (Date.now() - restedAt) / 1_000;
    const batch = await resting(mill, id);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: lines, completed: lines } });
    const tookS = (batch.completed_at ?? 0) - batch.created_at - waitedS;
    rows.push({
      file: about.name,
      'cost, $': batch.cost.usd.toFixed(4),
      'quoted, $': `${quote.costUsd.low.toFixed(4)} to ${quote.costUsd.high.toFixed(4)}`,
      'took, s': tookS.toFixed(0),
      'quoted, s': `${quote.seconds.low.toFixed(0)} to ${quote.seconds.high.toFixed(0)}`,
      within: isWithin(batch.cost.usd, quote.costUsd),
      // Shown, and not asserted: what else the machine does may change between the sample and the rest.
      'in time': isWithin(tookS, quote.seconds),
    });
  }
  process.stdout.write(tableOf(rows));
  expect(rows.filter(({ within }) => !within)).toEqual([]);
}, 1_200_000);

async function resting(mill: Fleet['mill'], id: string): Promise<BatchView> {
  for await (const batch of mill.batches.events(id)) if (batch.status === 'quoted') return batch;
  return await mill.batches.get(id);
}
