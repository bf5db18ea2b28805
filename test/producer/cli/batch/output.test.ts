import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { OutputFile } from '../../../../src/producer/cli/batch/output.ts';
import { RunError } from '../../../../src/shared/base/errors.ts';
import { scratchFolder } from '../../batch/support.ts';
import { batchView } from './batch-view.ts';

const never = new AbortController().signal;
const bytes = Buffer.from(`${JSON.stringify({ line: 1, executionId: 'x', status: 'completed' })}\n`.repeat(100));

/** A server with one file, whose downloads break after these many bytes, one after the other. */
function server({ breaksAfter = [] as number[], error = new RunError('queue_unavailable', 'away') } = {}) {
  return {
    get: () => Promise.resolve({ bytes: bytes.length } as never),
    async *content() {
      const end = breaksAfter.shift() ?? bytes.length;
      for (let at = 0; at < end; at += 100) yield bytes.subarray(at, Math.min(end, at + 100));
      if (end < bytes.length) throw error;
    },
  };
}

async function begun(path = join(scratchFolder(), 'out.jsonl'), about = {}) {
  const output = await OutputFile.open(path, undefined);
  const moved = await output.begin(batchView(about), 'digest');
  return { output, moved, path };
}

test('a download that breaks goes on where it was, and the file is there as a whole or not at all', async () => {
  const { output, path } = await begun();
  const seen: number[] = [];
  await output.download(server({ breaksAfter: [150, 1_000] }), 'file', (done) => seen.push(done), never);
  expect(readFileSync(path)).toEqual(bytes);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  expect(readdirSync(dirname(path)).toSorted()).toEqual(['out.jsonl', 'out.jsonl.batch']);

  const other = await begun();
  const error = new RunError('not_found', 'gone');
  await expect(other.output.download(server({ breaksAfter: [150], error }), 'file', () => {}, never)).rejects.toBe(
    error,
  );
  expect(readdirSync(dirname(other.path))).toEqual(['out.jsonl.batch']);
});

test('the file says which batch it is of, and results of another one move aside', async () => {
  const { output, path } = await begun();
  await output.download(server(), 'file', () => {}, never);
  const same = await begun(path);
  expect([same.output.note, same.moved]).toMatchObject([
    { batch: batchView().id, name: 'in', digest: 'digest' },
    undefined,
  ]);
  const other = await begun(path, { id: 'batch_01KB0000000000000000000001' });
  expect(other.moved).toBe(`${path}.${batchView().id}`);
  expect([readFileSync(`${path}.${batchView().id}`), existsSync(path)]).toEqual([bytes, false]);
});

test('results that came without a note move aside, too', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  writeFileSync(path, bytes);
  expect((await begun(path)).moved).toBe(`${path}.replaced`);
});

test('of two commands that want one file for different batches, the later one gets it', async () => {
  const first = await begun();
  await begun(first.path, { id: 'batch_01KB0000000000000000000001' });
  await expect(first.output.download(server(), 'file', () => {}, never)).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining('is to be of batch_01KB0000000000000000000001 by now') as string,
  });
  expect(existsSync(first.path)).toBe(false);
});

test.each([
  ['out.jsonl', 'my notes\n', 'has something in it that is no output of a batch'],
  ['out.jsonl', '{"a":1}\n', 'has something in it that is no output of a batch'],
  ['out.csv', 'a,b\n1,2\n', 'has something in it that is no output of a batch'],
])('a file %s with %j is left alone', async (name, content, problem) => {
  const path = join(scratchFolder(), name);
  writeFileSync(path, content);
  await expect(OutputFile.open(path, undefined)).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining(problem) as string,
  });
  expect(readFileSync(path, 'utf8')).toBe(content);
});

test('the rows of a batch are recognised, also under names that gave way', async () => {
  const path = join(scratchFolder(), 'out.csv');
  writeFileSync(path, 'id,text,status,run_text,error,cost_usd,run_id\n1,x,completed,y,,0,R\n');
  expect((await OutputFile.open(path, undefined)).path).toBe(path);
});

test('a folder is no output, nor is the file of the requests under another name', async () => {
  const folder = scratchFolder();
  await expect(OutputFile.open(folder, undefined)).rejects.toThrow('is no file: choose another output file');
  const requests = join(folder, 'in.jsonl');
  writeFileSync(requests, '"x"\n');
  await expect(OutputFile.open(join(folder, '.', 'in.jsonl'), requests)).rejects.toThrow('is the file of the requests');
});
