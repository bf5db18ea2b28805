import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { scratchFolder } from '../batch/support.ts';
import { clientWorld } from './options/client.ts';
import { batchWorld } from './support/batch-command.ts';
import { millrace, settings } from './support/cli-process.ts';

test('batches are listed, paused, resumed and cancelled', async () => {
  const { prefix, mill } = await clientWorld();
  const env = settings(prefix);
  const none = await millrace(['batches'], { env });
  expect([none.code, none.stderr]).toEqual([0, 'There are no batches.\n']);
  const file = await mill.files.upload('"one"\n"two"\n', { filename: 'lines.jsonl', purpose: 'batch' });
  const asked = { endpoint: '/v1/runs', input_file_id: file.id, agent: 'support' } as const;
  const { id } = await mill.batches.create({ ...asked, name: 'nightly' });
  const unnamed = await mill.batches.create(asked);

  const listed = await millrace(['batches'], { env });
  expect(listed.stdout).toMatch(
    new RegExp(`^BATCH +NAME +STATUS.*\\n${unnamed.id} +validating .*\\n${id} +nightly +validating `),
  );
  const page = await millrace(['batches', 'list', '--limit', '1'], { env });
  expect(page.stderr).toContain(`batches list --cursor ${unnamed.id}`);
  const rest = await millrace(['batches', 'list', '--cursor', unnamed.id], { env });
  expect(rest.stdout).toContain(id);

  expect((await millrace(['batches', 'pause', id], { env })).stdout).toContain(`${id} (nightly): paused\n`);
  const early = await millrace(['batches', 'download', id, '-o', join(scratchFolder(), 'out.jsonl')], { env });
  expect([early.code, early.stderr]).toEqual([2, expect.stringContaining(`${id} has no results: it is paused`)]);
  expect(early.stderr).toContain('--so-far');
  const soFar = join(scratchFolder(), 'so-far.jsonl');
  const some = await millrace(['batches', 'download', id, '--so-far', '-o', soFar], { env });
  expect([some.code, some.stdout, readFileSync(soFar, 'utf8')]).toEqual([0, `${soFar}\n`, '']);
  expect((await millrace(['batches', 'resume', id], { env })).stdout).toContain(`${id} (nightly): validating\n`);
  expect((await millrace(['batches', 'cancel', id], { env })).stdout).toContain(`${id} (nightly): cancelling\n`);
  const missing = await millrace(['batches', 'get', 'batch_01KB0000000000000000000000'], { env });
  expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('not_found')]);
});

test('a batch that has ended is shown with its files, downloaded, and its failed lines run again', async () => {
  const { folder, env, args, out } = await batchWorld(['fine', 'fail']);
  const { stdout } = await millrace([...args, '--json'], { env });
  const { id, fileId } = JSON.parse(stdout) as { id: string; fileId: string };
  const shown = await millrace(['batches', 'get', id], { env });
  expect(shown.stdout).toContain(`${id} (in): completed\n`);
  expect(shown.stdout).toContain('2/2  1 failed');
  expect(shown.stdout).toContain(`results: ${fileId}\n`);
  const copy = join(folder, 'copy.jsonl');
  const downloaded = await millrace(['batches', 'download', id, '-o', copy], { env });
  expect([downloaded.code, downloaded.stdout]).toEqual([0, `${copy}\n`]);
  expect(readFileSync(copy, 'utf8')).toBe(readFileSync(out, 'utf8'));
  const failed = await millrace(['batches', 'download', id, '--so-far', '--errors', '-o', copy], { env });
  expect([failed.code, readFileSync(copy, 'utf8')]).toEqual([0, expect.stringMatching(/^\{"line":2,.*"failed".*\n$/)]);
  const redriven = await millrace(['batches', 'redrive', id], { env });
  expect([redriven.code, redriven.stderr]).toEqual([0, expect.stringContaining('1 line runs again.')]);
}, 60_000);
