import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { stringify } from 'csv-stringify/sync';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { lineSource, readLines } from '../../../../src/producer/batch/lines/read-lines.ts';
import { readCsv, saidBy, sourceOf } from './support.ts';

const csv = { filename: 'tickets.csv' };

test('a row is the input of a run, with its name, its agent and its metadata', async () => {
  const lines = await readCsv(
    'id,input,agent,metadata.customer,metadata.city,note\na,one,,7,Bonn,x\nb,two,other,,,\n,three,,,,\n',
  );
  expect(lines).toMatchObject([
    { line: 2, id: 'a', request: { agent: 'support', input: 'one', metadata: { customer: '7', city: 'Bonn' } } },
    { line: 3, id: 'b', request: { agent: 'other', input: 'two' } },
    { line: 4, id: undefined, request: { agent: 'support', input: 'three' } },
  ]);
  expect(lines[1]).not.toHaveProperty('request.metadata');
});

test.each([1, 2, 5, 1_000])(
  'quotes, line ends and a mark are read as RFC 4180 has them, in pieces of %i',
  async (piece) => {
    const content =
      '\uFEFF"input","id"\r\n"He said ""no"".\r\nWhy?",1\r\n\r\nplain, 2\r\n"gr\u00f6\u00dfe, ""x""","3"\r\n"",4\r\nlast,5';
    const bytes = Buffer.from(content);
    const lines = await readCsv(content, {}, piece);
    expect(lines.map((line) => [line.line, line.id, saidBy(line)])).toEqual([
      [2, '1', 'He said "no".\r\nWhy?'],
      [5, ' 2', 'plain'],
      [6, '3', 'gr\u00f6\u00dfe, "x"'],
      [7, '4', ''],
      [8, '5', 'last'],
    ]);
    const again = lines.map(({ offset, length }) => bytes.toString('utf8', offset, offset + length));
    expect(again.slice(0, 2)).toEqual(['"He said ""no"".\r\nWhy?",1', 'plain, 2']);
  },
);

test('any table that is written as CSV is read again as it was', async () => {
  const cell = fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r\n', ' ', '\u00fc', '=') });
  await fc.assert(
    fc.asyncProperty(
      fc.array(cell, { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 1, max: 9 }),
      async (cells, piece) => {
        const rows = cells.map((value, index) => [`${index}`, value]);
        const text = stringify([['id', 'input'], ...rows], { record_delimiter: '\n' });
        const lines = await readCsv(text, {}, piece);
        expect(lines.map((line) => [line.id, saidBy(line)])).toEqual(rows);
      },
    ),
  );
});

test('a row with too few or too many fields is bad, with its line, and the next is not', async () => {
  const lines = await readCsv('id,input\n"a","x\ny"\nb\nc,d,e\nf,g\n');
  expect(lines.map((line) => [line.line, saidBy(line)])).toEqual([
    [2, 'x\ny'],
    [4, 'the line has 1 field, and the header 2'],
    [5, 'the line has 3 fields, and the header 2'],
    [6, 'g'],
  ]);
  expect(lines[1]).toMatchObject({ kind: 'bad', id: 'b' });
});

test('a wrong quote spoils its own row, and of one that is not closed at most the next', async () => {
  const lines = await readCsv('id,input\n1,5" pipe\n2,fine\n3,"open\n4,"next"\n5,fine\n6,"to the end\n7,gone\n');
  expect(lines.map((line) => [line.line, saidBy(line)])).toEqual([
    [2, expect.stringContaining('has a quote inside a field')],
    [3, 'fine'],
    [4, expect.stringContaining('has a quote inside a field')],
    [6, 'fine'],
    [7, expect.stringContaining('opens a quote that nothing closes')],
  ]);
});

test('a row over a megabyte is bad as a whole: nothing of it runs as a row of its own', async () => {
  const inner = `${'x'.repeat(1023)}\n`.repeat(1100);
  const lines = await readCsv(`input\n"${inner}"\nfine\n`);
  expect(lines.map((line) => [line.line, saidBy(line)])).toEqual([
    [2, 'the line is longer than 1048576 bytes'],
    [1103, 'fine'],
  ]);
});

test.each([
  ['', 'the file has no header'],
  ['\n\n', 'the file has no header'],
  ['input,,x\n', 'column 2 of the header has no name'],
  ['input, input\n', 'the header has the column input twice'],
  ['id,custom_id,input\n', 'both id and custom_id'],
  ['id;input\n', 'put commas between columns'],
  ['a"b,input\n', 'the header has a quote inside a field'],
  ['ticket,text\n', 'no column input: name one so, or give an inputTemplate, for instance {{ ticket }}'],
  ['Ticket no.,text\n', '{{ row["Ticket no."] }}'],
])('a file that begins with %j is refused', (content, problem) => {
  expect(() => sourceOf(content, csv)).toThrow(problem);
});

test('lines of OpenAI come as JSONL only', () => {
  expect(() => sourceOf('input\n', { ...csv, endpoint: '/v1/responses' })).toThrow('a CSV needs the endpoint /v1/runs');
});

test('a row has the same key wherever it stands', async () => {
  const [a, b] = await readCsv('id,input\n1,a\n2,b\n');
  const [again] = await readCsv('id,input\n2,b\n');
  expect(again?.key).toBe(b?.key);
  expect(a?.key).not.toBe(b?.key);
});

test('a large file is read in little memory', async () => {
  const row = `,"${'word, '.repeat(600)}"\n`;
  async function* rows() {
    yield Buffer.from('id,input\n');
    for (let index = 0; index < 6_000; index++) yield Buffer.from(`${index}${row}`);
  }
  const source = lineSource(
    { endpoint: '/v1/runs', ...csv, defaults: { agent: 'a' }, inputTemplate: undefined, answerFields: [] },
    Buffer.from('id,input\n'),
  );
  let lines = 0;
  let most = 0;
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const inUse = () => {
    gc();
    return process.memoryUsage().heapUsed;
  };
  const before = inUse();
  for await (const line of readLines(rows(), source)) {
    lines += line.kind === 'request' ? 1 : 0;
    if (lines % 1_000 === 0) most = Math.max(most, inUse() - before);
  }
  expect(lines).toBe(6_000);
  // The file has 22 MB.
  expect(most / 1e6).toBeLessThan(5);
});
