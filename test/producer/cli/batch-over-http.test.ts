import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../../support/redis.ts';
import { batchWorld, readResults } from './support/batch-command.ts';
import { CliProcess, millraceProcess } from './support/cli-process.ts';

test('a batch that was begun over HTTP and left with Ctrl-C goes on, and is fetched from a shell that knows only the address', async () => {
  const { fleet, folder, file, out } = await batchWorld(Array.from({ length: 80 }, (_, index) => `line ${index}`));
  const { url } = await fleet.startProducer();
  const env = { MILLRACE_URL: url };
  const first = new CliProcess(['batch', file, '--agent', 'summarise', '-o', out, '--window', '10'], { env });
  const batch = async () => (await fleet.mill.batches.list()).data[0];
  await until('some lines', async () => ((await batch())?.request_counts.completed ?? 0) >= 5, 60_000);
  first.signal('SIGINT');
  expect([await first.exited, first.stderr]).toEqual([
    130,
    expect.stringContaining('The batch goes on without this command. To come back: '),
  ]);
  expect(existsSync(out)).toBe(false);
  await until('the batch to go on by itself', async () => (await batch())?.status === 'completed', 60_000);

  const [, id = ''] = /--attach (batch_\w+)/.exec(first.stderr) ?? [];
  const elsewhere = join(folder, 'tomorrow.jsonl');
  const back = await millraceProcess(['batch', '--attach', id, '-o', elsewhere, '--json'], { env, cwd: folder });
  expect([back.code, JSON.parse(back.stdout)]).toMatchObject([0, { id, end: 'finished', finished: 80, failed: 0 }]);
  expect(readResults(elsewhere).map(({ line }) => line)).toEqual(Array.from({ length: 80 }, (_, index) => index + 1));
  const again = await millraceProcess(['batch', file, '--agent', 'summarise', '-o', out, '--json'], { env });
  expect(JSON.parse(again.stdout)).toMatchObject({ id, end: 'finished' });
  expect(readResults(out)).toHaveLength(80);
}, 180_000);
