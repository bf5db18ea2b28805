import { appendFileSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { executionIdParts } from '../../../src/producer/batch/batch-file.ts';
import { BatchOutput, type BatchResult, type OutputOf } from '../../../src/producer/batch/batch-output.ts';
import { readResults, scratchFolder } from './support.ts';

const batch = { file: '/nowhere/in.jsonl', name: 'key', defaults: { agent: 'support' } };
const executionId = (line: number) => `${executionIdParts(batch).options}${line}`;

/** A file of requests with these lines, by what they say. */
function requests(lines: readonly number[], more: Partial<OutputOf> = {}): OutputOf {
  const entries = lines.map((said, index) => [executionId(said), { line: index + 1, kind: 'request' }] as const);
  return { batch, lines: new Map(entries), retryFailed: false, ...more };
}

const many = requests(Array.from({ length: 200 }, (_, index) => index + 1));

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
  await using output = await BatchOutput.open(path, many);
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
  await using output = await BatchOutput.open(path, many);
  expect(output.earlier).toEqual([
    { executionId: executionId(1), runId: 'R1', status: 'completed', costMicrocents: 5 },
    { executionId: executionId(2), runId: 'R2', status: 'failed', costMicrocents: 5 },
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
  ['results of another batch', resultOf('batch:other:12345678:1'), 'continue it with --name other, or'],
  ['results of other options', resultOf(`batch:key:12345678:1`), 'give the same --agent, --model and --deadline, or'],
  ['results of no batch', resultOf('mine'), 'not of a batch'],
])('a file with %s is refused and stays as it is', async (_, content, advice = 'choose another output file') => {
  const path = join(scratchFolder(), 'out.jsonl');
  writeFileSync(path, content);
  await expect(BatchOutput.open(path, many)).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining(advice) as string,
  });
  expect(readFileSync(path, 'utf8')).toBe(content);
});

function resultOf(id: string): string {
  return `${JSON.stringify(result(1, { executionId: id }))}\n`;
}

test('results keep their lines when lines are added before them, and fields that this version does not know', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  writeFileSync(path, [result(1), { ...result(2), later: true }].map((one) => `${JSON.stringify(one)}\n`).join(''));
  await using output = await BatchOutput.open(path, requests([9, 1, 2]));
  await output.append(result(9, { line: 1 }));
  const [first, second, third] = readFileSync(path, 'utf8').trim().split('\n');
  expect([first, second, third].map((text) => JSON.parse(text ?? '') as unknown)).toEqual([
    result(1, { line: 2 }),
    { ...result(2, { line: 3 }), later: true },
    result(9, { line: 1 }),
  ]);
  expect(output.replaced).toBe(0);
  expect(existsSync(`${path}.replaced`)).toBe(false);
});

test('results of lines that are gone move to a file of their own, those that cost nothing go', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  const { runId: _, ...refused } = result(3, { status: 'failed' });
  await write(path, [result(1), result(2), refused]);
  {
    await using output = await BatchOutput.open(path, requests([2]));
    expect(output.replaced).toBe(1);
    expect(output.earlier).toMatchObject([{ runId: 'R2' }]);
  }
  expect(readResults(path)).toEqual([result(2, { line: 1 })]);
  expect(readResults(`${path}.replaced`)).toEqual([result(1)]);
  await using emptied = await BatchOutput.open(path, requests([]));
  expect([emptied.replaced, readResults(path)]).toEqual([1, []]);
  expect(readResults(`${path}.replaced`)).toEqual([result(1), result(2, { line: 1 })]);
});

test('a request that was refused is open again, and a line that is no request is not', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  const refused = [1, 2].map((line) => {
    const { runId: _, ...rest } = result(line, { status: 'failed' });
    return rest;
  });
  await write(path, refused);
  const lines = new Map([
    [executionId(1), { line: 1, kind: 'request' as const }],
    [executionId(2), { line: 2, kind: 'bad' as const }],
  ]);
  await using output = await BatchOutput.open(path, requests([], { lines }));
  expect(output.earlier.map((earlier) => earlier.executionId)).toEqual([executionId(2)]);
});

test('a failed run is open again when failures are retried, and a result that is there twice stays once', async () => {
  const path = join(scratchFolder(), 'out.jsonl');
  await write(path, [result(1, { status: 'failed' }), result(2), result(2), result(3, { status: 'cancelled' })]);
  await using output = await BatchOutput.open(path, requests([1, 2, 3], { retryFailed: true }));
  expect(output.earlier.map(({ runId }) => runId)).toEqual(['R2', 'R3']);
  expect(readResults(path).map(({ line }) => line)).toEqual([2, 3]);
});

test('a folder that does not exist is a usage error', async () => {
  await expect(BatchOutput.open('/nowhere/out.jsonl', many)).rejects.toMatchObject({ code: 'validation' });
});

test('the file of the requests is no output, and stays as it is', async () => {
  const path = join(scratchFolder(), 'in.jsonl');
  writeFileSync(path, '{"line":1,"input":"a line without an end"}');
  symlinkSync(path, `${path}.link`);
  const opened = BatchOutput.open(`${path}.link`, { ...many, batch: { ...batch, file: path } });
  await expect(opened).rejects.toThrow('is the file of the requests; choose another output file');
  expect(readFileSync(path, 'utf8')).toContain('without an end');
});

test('what is no file, like a terminal, is refused as output', async () => {
  await expect(BatchOutput.open('/dev/null', many)).rejects.toMatchObject({ code: 'validation' });
});
