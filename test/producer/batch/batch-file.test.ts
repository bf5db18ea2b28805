import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  batchNameOf,
  checkBatchName,
  readBatch,
  type BatchDefaults,
  type BatchLine,
} from '../../../src/producer/batch/batch-file.ts';
import { textLines } from '../../../src/producer/batch/text-lines.ts';
import { scratchFolder } from './support.ts';

function file(content: string | Buffer): string {
  const path = join(scratchFolder(), 'in.jsonl');
  writeFileSync(path, content);
  return path;
}

async function read(content: string | Buffer, defaults: BatchDefaults = { agent: 'support' }): Promise<BatchLine[]> {
  return await Array.fromAsync(readBatch({ file: file(content), name: 'b', defaults }));
}

test('a line is an input, an object with run fields, or a line of an OpenAI batch', async () => {
  const lines = await read(
    [
      '"one"',
      '{"input":"two","id":"b","thread":"t","metadata":{"k":"v"}}',
      '{"input":"three","custom_id":"c"}',
      '{"custom_id":"d","method":"POST","url":"/v1/responses","body":{"model":"m","input":"four"}}',
      '{"custom_id":"e","body":{"messages":[{"role":"user","content":"five"}]}}',
    ].join('\n'),
  );
  expect(lines.map((line) => ({ ...line, executionId: 'any' }))).toEqual(
    [
      { line: 1, id: undefined, kind: 'request', request: { agent: 'support', input: 'one' } },
      {
        line: 2,
        id: 'b',
        kind: 'request',
        request: { agent: 'support', input: 'two', thread: 't', metadata: { k: 'v' } },
      },
      { line: 3, id: 'c', kind: 'request', request: { agent: 'support', input: 'three' } },
      { line: 4, id: 'd', kind: 'request', request: { agent: 'support', input: 'four' } },
      { line: 5, id: 'e', kind: 'request', request: { agent: 'support', input: 'five' } },
    ].map((line) => ({ ...line, executionId: 'any' })),
  );
});

test('a field of a line wins over the default for all', async () => {
  const [line] = await read('{"input":"x","agent":"other","overrides":{"model":"small"}}', {
    agent: 'support',
    overrides: { model: 'large' },
  });
  expect(line).toMatchObject({ request: { agent: 'other', overrides: { model: 'small' } } });
});

test.each([
  ['{"input": "x"', 'is not JSON'],
  ['7', 'must be a JSON string or object'],
  ['{"id":"a"}', 'needs `input`'],
  ['{"input":"x","colour":"red"}', 'colour'],
  ['{"input":"x","executionId":"mine"}', 'executionId'],
  ['{"input":"x","batch":"mine"}', 'batch'],
  [
    '{"custom_id":"a","body":{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}}',
    'needs a `body`',
  ],
])('the line %s is bad and the next is not', async (text, problem) => {
  const [bad, good] = await read(`${text}\n"fine"\n`);
  expect(bad).toMatchObject({ line: 1, kind: 'bad', problem: expect.stringContaining(problem) as string });
  expect(good).toMatchObject({ line: 2, kind: 'request' });
});

test('a bad line keeps its name', async () => {
  expect(await read('{"id":"a","colour":"red"}')).toMatchObject([{ kind: 'bad', id: 'a' }]);
});

test('the id of a bad line is free for another one', async () => {
  expect(await read('{"id":"a","colour":"red"}\n{"id":"a","input":"x"}')).toMatchObject([
    { kind: 'bad', id: 'a' },
    { kind: 'request', id: 'a' },
  ]);
});

test('a line without an agent is bad when none is given for all', async () => {
  expect(await read('"x"', {})).toMatchObject([
    { kind: 'bad', problem: expect.stringContaining('needs `agent`') as string },
  ]);
});

test('empty lines are no lines, but are counted', async () => {
  const content = '\uFEFF"a"\r\n\r\n   \n"b"';
  expect((await read(content)).map(({ line, kind }) => [line, kind])).toEqual([
    [1, 'request'],
    [4, 'request'],
  ]);
});

test('a line over a megabyte is bad, and the next is not', async () => {
  const lines = await read(`"${'x'.repeat(1024 * 1024)}"\n"fine"\n`);
  expect(lines).toMatchObject([
    { kind: 'bad', problem: expect.stringContaining('longer than') as string },
    { kind: 'request' },
  ]);
});

async function idsOf(
  content: string,
  { name = 'b', defaults = { agent: 'support' } }: { name?: string; defaults?: BatchDefaults } = {},
) {
  const lines = await Array.fromAsync(readBatch({ file: file(content), name, defaults }));
  return lines.map(({ executionId }) => executionId);
}

test('a line has the same execution id wherever it stands, and however its JSON is written', async () => {
  const [a, b] = await idsOf('{"input":"a","id":"1"}\n"b"\n');
  expect(await idsOf('nonsense\n"b"\n\n{ "id": "1", "input": "a" }\n')).toEqual([expect.any(String), b, a]);
  expect(await idsOf('{"input":"b"}')).toEqual([b]);
});

test('what a line says, its id, the name of the batch and the options each make another line of it', async () => {
  const ids = [
    ...(await idsOf('{"input":"a","id":"1"}\n"a"\n"b"\n{"input":"a","metadata":{"k":"v"}}')),
    ...(await idsOf('"a"', { name: 'c' })),
    ...(await idsOf('"a"', { defaults: { agent: 'other' } })),
  ];
  expect(new Set(ids).size).toBe(6);
  for (const executionId of ids) expect(executionId).toMatch(/^batch:[bc]:[0-9a-f]{8}:[0-9a-f]{20}$/);
});

test('equal lines are lines of their own, and one more of them changes no other', async () => {
  const [first, second] = await idsOf('"a"\n"a"\n');
  expect(second).toBe(`${first}:2`);
  expect(await idsOf('"b"\n"a"\n"a"\n"a"\n')).toEqual([expect.any(String), first, second, `${first}:3`]);
});

test('a line whose id another line has is bad, and the first is not', async () => {
  expect(await read('{"input":"a","id":"1"}\n"b"\n{"input":"c","custom_id":"1"}\n')).toMatchObject([
    { kind: 'request' },
    { kind: 'request' },
    { line: 3, id: '1', kind: 'bad', problem: 'has the id of line 1: each line needs its own' },
  ]);
});

test('a bad line that is corrected is another line', async () => {
  const [bad] = await idsOf('{"inptu":"a"}');
  const [corrected] = await idsOf('{"input":"a"}');
  expect(bad).not.toBe(corrected);
});

test.each([
  ['/data/questions.jsonl', 'questions'],
  ['two words & more.v2.jsonl', 'two-words-more.v2'],
  ['größe', 'gr-e'],
  [`${'x'.repeat(200)}.jsonl`, 'x'.repeat(80)],
  ['.jsonl', '.jsonl'],
  ['', 'batch'],
])('the batch of the file %s is %s', (path, name) => {
  expect(batchNameOf(path)).toBe(name);
  checkBatchName(name);
});

test.each(['', 'a:b', 'x'.repeat(81), 'a b'])('%j cannot name a batch', (name) => {
  expect(() => checkBatchName(name)).toThrow('the name of a batch');
});

test('a file that cannot be read is named', async () => {
  const reading = Array.fromAsync(readBatch({ file: '/nowhere/at/all.jsonl', name: 'b', defaults: {} }));
  await expect(reading).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining('/nowhere/at/all.jsonl') as string,
  });
});

test('a line that arrives in pieces, cut within a character, is whole', async () => {
  const bytes = Buffer.from('größe\r\nzwei');
  const chunks = async function* () {
    for (let at = 0; at < bytes.length; at++) yield bytes.subarray(at, at + 1);
  };
  expect(await Array.fromAsync(textLines(chunks(), 100))).toEqual([
    { number: 1, text: 'größe' },
    { number: 2, text: 'zwei' },
  ]);
});
