import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BatchOutput, type BatchResult } from '../../../src/producer/batch/batch-output.ts';
import { readResults, scratchFolder } from './support.ts';

const executionId = (line: number) => `batch:key:${line}`;

function result(line: number, more: Partial<BatchResult> = {}): BatchResult {
  return {
    line,
    executionId: executionId(line),
    runId: `R${line}`,
    status: 'completed',
    text: 'ok',
    costMicrocents: 5,
    ...more,
  };
}

async function write(path: string, results: readonly BatchResult[]): Promise<void> {
  await using output = await BatchOutput.open(path, executionId);
  await Promise.all(results.map((one) => output.append(one)));
}

test('results that are appended at the same time are on lines of their own', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  const results = Array.from({ length: 200 }, (_, index) => result(index + 1, { text: 'x'.repeat(index * 50) }));
  await write(path, results);
  expect(readResults(path)).toEqual(results);
});

test('what is there already is reported, and added to', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  await write(path, [result(1), result(2, { status: 'failed' })]);
  await using output = await BatchOutput.open(path, executionId);
  expect(output.earlier).toEqual([
    { line: 1, status: 'completed', costMicrocents: 5 },
    { line: 2, status: 'failed', costMicrocents: 5 },
  ]);
  await output.append(result(3));
  expect(readResults(path).map(({ line }) => line)).toEqual([1, 2, 3]);
});

test.each(['{', '{"li', '{"line":2,"executionId":"batch:k', JSON.stringify(result(2))])(
  'a last line that a crash cut off (%s) is removed',
  async (torn) => {
    const path = join(scratchFolder(), 'out.jsonl');
    await write(path, [result(1)]);
    appendFileSync(path, torn);
    await write(path, [result(2)]);
    expect(readResults(path).map(({ line }) => line)).toEqual([1, 2]);
  },
);

test('a torn first line is removed too, also a long one', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  writeFileSync(path, `{"line":1,"text":"${'x'.repeat(200_000)}`);
  await write(path, [result(1)]);
  expect(readResults(path)).toEqual([result(1)]);
});

test.each([
  ['notes without a newline', 'my notes'],
  ['notes', 'my notes\n'],
  ['JSON of another kind', '{"line":1}\n'],
  ['results of another batch', `${JSON.stringify(result(1, { executionId: 'batch:other:1' }))}\n`],
])('a file with %s is refused and stays as it is', async (_, content) => {
  const path = join(scratchFolder(), 'out.jsonl');
  writeFileSync(path, content);
  await expect(BatchOutput.open(path, executionId)).rejects.toMatchObject({ code: 'validation' });
  expect(readFileSync(path, 'utf8')).toBe(content);
});

test('a folder that does not exist is a usage error', async () => {
  await expect(BatchOutput.open('/nowhere/out.jsonl', executionId)).rejects.toMatchObject({ code: 'validation' });
});
