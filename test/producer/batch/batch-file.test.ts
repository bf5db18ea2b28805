import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  identifyBatch,
  readBatch,
  type BatchDefaults,
  type BatchLine,
  textLines,
} from '../../../src/producer/batch/batch-file.ts';
import { scratchFolder } from './support.ts';

function file(content: string | Buffer): string {
  const path = join(scratchFolder(), 'in.jsonl');
  writeFileSync(path, content);
  return path;
}

async function read(content: string | Buffer, defaults: BatchDefaults = { agent: 'support' }): Promise<BatchLine[]> {
  return await Array.fromAsync(readBatch(file(content), defaults));
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
  expect(lines).toEqual([
    { line: 1, kind: 'request', request: { agent: 'support', input: 'one' } },
    {
      line: 2,
      id: 'b',
      kind: 'request',
      request: { agent: 'support', input: 'two', thread: 't', metadata: { k: 'v' } },
    },
    { line: 3, id: 'c', kind: 'request', request: { agent: 'support', input: 'three' } },
    { line: 4, id: 'd', kind: 'request', request: { agent: 'support', input: 'four' } },
    { line: 5, id: 'e', kind: 'request', request: { agent: 'support', input: 'five' } },
  ]);
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
  ['7', 'line:'],
  ['{"id":"a"}', 'input:'],
  ['{"input":"x","colour":"red"}', 'colour'],
  ['{"input":"x","executionId":"mine"}', 'executionId'],
  ['{"input":"x","batch":"mine"}', 'batch'],
  ['{"custom_id":"a","body":{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}}', 'input:'],
])('the line %s is bad and the next is not', async (text, problem) => {
  const [bad, good] = await read(`${text}\n"fine"\n`);
  expect(bad).toMatchObject({ line: 1, kind: 'bad', problem: expect.stringContaining(problem) as string });
  expect(good).toMatchObject({ line: 2, kind: 'request' });
});

test('a bad line keeps its name', async () => {
  expect(await read('{"id":"a","colour":"red"}')).toMatchObject([{ kind: 'bad', id: 'a' }]);
});

test('a line without an agent is bad when none is given for all', async () => {
  expect(await read('"x"', {})).toMatchObject([
    { kind: 'bad', problem: expect.stringContaining('names no agent') as string },
  ]);
});

test('empty lines are no lines, but are counted', async () => {
  const content = '\uFEFF"a"\r\n\r\n   \n"b"';
  expect((await read(content)).map(({ line, kind }) => [line, kind])).toEqual([
    [1, 'request'],
    [4, 'request'],
  ]);
  expect((await identifyBatch(file(content), {})).lines).toBe(2);
});

test('a line over a megabyte is bad and does not stay in memory', async () => {
  const lines = await read(`"${'x'.repeat(1024 * 1024)}"\n"fine"\n`);
  expect(lines).toMatchObject([
    { kind: 'bad', problem: expect.stringContaining('longer than') as string },
    { kind: 'request' },
  ]);
});

test('the same content with the same options is the same batch, and nothing else is', async () => {
  const key = async (content: string, defaults: BatchDefaults) => (await identifyBatch(file(content), defaults)).key;
  const first = await key('"a"\n', { agent: 'x' });
  expect(await key('"a"\n', { agent: 'x' })).toBe(first);
  expect(await key('"b"\n', { agent: 'x' })).not.toBe(first);
  expect(await key('"a"\n', { agent: 'y' })).not.toBe(first);
});

test('a file that cannot be read is named', async () => {
  await expect(identifyBatch('/nowhere/at/all.jsonl', {})).rejects.toMatchObject({
    code: 'validation',
    message: expect.stringContaining('/nowhere/at/all.jsonl') as string,
  });
});

test('a line that arrives in pieces, cut within a character, is whole', async () => {
  const bytes = Buffer.from('größe\nzwei');
  const chunks = async function* () {
    for (let at = 0; at < bytes.length; at++) yield bytes.subarray(at, at + 1);
  };
  expect(await Array.fromAsync(textLines(chunks(), 100))).toEqual([
    { number: 1, text: 'größe' },
    { number: 2, text: 'zwei' },
  ]);
});
