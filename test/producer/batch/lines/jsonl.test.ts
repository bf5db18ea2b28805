import { expect, test } from 'vitest';
import type { LineDefaults } from '../../../../src/producer/batch/lines/line.ts';
import { digestOfId, readLines } from '../../../../src/producer/batch/lines/read-lines.ts';
import { read, saidBy, sourceOf } from './support.ts';

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
  const agent = 'support';
  expect(lines).toMatchObject([
    { line: 1, id: undefined, kind: 'request', request: { agent, input: 'one' } },
    { line: 2, id: 'b', kind: 'request', request: { agent, input: 'two', thread: 't', metadata: { k: 'v' } } },
    { line: 3, id: 'c', kind: 'request', request: { agent, input: 'three' } },
    { line: 4, id: 'd', kind: 'request', request: { agent, input: 'four' } },
    { line: 5, id: 'e', kind: 'request', request: { agent, input: 'five' } },
  ]);
});

test('a field of a line wins over the default for all', async () => {
  const defaults = { agent: 'support', overrides: { model: 'large' }, priority: 5 };
  const [line] = await read('{"input":"x","agent":"other","overrides":{"model":"small"}}', { defaults });
  expect(line).toMatchObject({ request: { agent: 'other', overrides: { model: 'small' }, priority: 5 } });
});

test('a line may be asked with parts, and one that is not right says which', async () => {
  const part = { type: 'image', url: 'https://example.com/mill.png' };
  const line = (...input: unknown[]) => JSON.stringify({ input });
  const [good, bad, kept] = await read(
    [line({ type: 'text', text: 'See:' }, part), line({ type: 'image' }), '{"input":"x","files":[]}'].join('\n'),
  );
  expect(good).toMatchObject({ request: { input: [{ type: 'text', text: 'See:' }, part] } });
  expect(saidBy(bad)).toContain('input.0');
  expect(saidBy(kept)).toContain('files: is not a known field');
});

test.each([
  ['{"input": "x"', 'is not JSON'],
  ['7', 'must be a JSON string or object'],
  ['["x"]', 'must be a JSON string or object'],
  ['{"id":"a"}', 'needs `input`'],
  ['{"input":"x","colour":"red"}', 'colour'],
  ['{"input":"x","executionId":"mine"}', 'executionId'],
  ['{"input":"x","batch":"mine"}', 'batch'],
  [`{"input":"x","metadata":${'['.repeat(100)}${']'.repeat(100)}}`, 'nested deeper than 64 levels'],
  [JSON.stringify('x'.repeat(300_000)), 'at most 262144 bytes'],
  [
    '{"custom_id":"a","body":{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}}',
    'needs a `body`',
  ],
])('the line %.40s is bad and the next is not', async (text, problem) => {
  const [bad, good] = await read(`${text}\n"fine"\n`);
  expect(bad).toMatchObject({ line: 1, kind: 'bad', error: { code: 'validation' } });
  expect(saidBy(bad)).toContain(problem);
  expect(good).toMatchObject({ line: 2, kind: 'request' });
});

test('a line that is not in UTF-8 is bad and the next is not', async () => {
  const [bad, good] = await read(Buffer.concat([Buffer.from('"gr\u00fc\u00dfe"', 'latin1'), Buffer.from('\n"fine"')]));
  expect([saidBy(bad), saidBy(good)]).toEqual(['the line is not in UTF-8: save the file in that encoding', 'fine']);
});

test('a file in UTF-16, or one that is no text, is refused as a whole', () => {
  expect(() => sourceOf(Buffer.from('"hello"', 'utf16le'))).toThrow('in.jsonl is not text in UTF-8');
});

test('a bad line keeps its name, which stays free for another one', async () => {
  expect(await read('{"id":"a","colour":"red"}\n{"id":"a","input":"x"}')).toMatchObject([
    { kind: 'bad', id: 'a' },
    { kind: 'request', id: 'a' },
  ]);
});

test('a line without an agent is bad when none is given for all', async () => {
  const [line] = await read('"x"', { defaults: {} });
  expect(saidBy(line)).toContain('needs `agent`');
});

test('empty lines are no lines, but are counted', async () => {
  const lines = await read('\uFEFF"a"\r\n\r\n  \t \n"b"');
  expect(lines.map(({ line, kind }) => [line, kind])).toEqual([
    [1, 'request'],
    [4, 'request'],
  ]);
});

test('a line over a megabyte is bad, has nothing to read again, and the next is not bad', async () => {
  const lines = await read(`"${'x'.repeat(1024 * 1024)}"\n"fine"\n`);
  expect(lines).toMatchObject([
    { kind: 'bad', offset: 0, length: 0, error: { message: 'the line is longer than 1048576 bytes' } },
    { kind: 'request', offset: 1024 * 1024 + 3, length: 6 },
  ]);
});

test.each([1, 2, 3, 7, 1_000])('each line is where it says, in pieces of %i bytes', async (pieceBytes) => {
  const content = '\uFEFF"gr\u00f6\u00dfe"\r\n\n{"input":"\u65e5\u672c"}\n"last"';
  const bytes = Buffer.from(content);
  const lines = await read(content, {}, pieceBytes);
  expect(lines.map(saidBy)).toEqual(['gr\u00f6\u00dfe', '\u65e5\u672c', 'last']);
  const again = lines.map(({ offset, length }) => bytes.toString('utf8', offset, offset + length));
  expect(again).toEqual(['"gr\u00f6\u00dfe"', '{"input":"\u65e5\u672c"}', '"last"']);
});

async function keysOf(content: string, defaults: LineDefaults = { agent: 'support' }) {
  return (await read(content, { defaults })).map(({ key }) => key);
}

test('a line has the same key wherever it stands, and however its JSON is written', async () => {
  const [a, b] = await keysOf('{"input":"a","id":"1"}\n"b"\n');
  expect(await keysOf('nonsense\n"b"\n\n{ "id": "1", "input": "a" }\n')).toEqual([expect.any(String), b, a]);
  expect(await keysOf('{"input":"b"}')).toEqual([b]);
});

test('what a line says, its id and the options each make another line of it', async () => {
  const keys = [
    ...(await keysOf('{"input":"a","id":"1"}\n"a"\n"b"\n{"input":"a","metadata":{"k":"v"}}')),
    ...(await keysOf('"a"', { agent: 'other' })),
  ];
  expect(new Set(keys).size).toBe(5);
  for (const key of keys) expect(key).toMatch(/^[0-9a-f]{8}:[0-9a-f]{20}$/);
});

test('equal lines are lines of their own, and one more of them changes no other', async () => {
  const [first, second] = await keysOf('"a"\n"a"\n');
  expect(second).toBe(`${first}:2`);
  expect(await keysOf('"b"\n"a"\n"a"\n"a"\n')).toEqual([expect.any(String), first, second, `${first}:3`]);
});

test('a line whose id another line has is bad, and the first is not', async () => {
  const lines = await read('{"input":"a","id":"1"}\n"b"\n{"input":"c","custom_id":"1"}\n');
  expect(lines).toMatchObject([
    { kind: 'request' },
    { kind: 'request' },
    { line: 3, id: '1', kind: 'bad', error: { message: 'the line has the id of line 1: each line needs its own' } },
  ]);
});

test('a bad line that is corrected is another line', async () => {
  expect(await keysOf('{"inptu":"a"}')).not.toEqual(await keysOf('{"input":"a"}'));
});

/** Lines of a file some of which erasures overwrote. */
async function readErased(lines: readonly string[], erased: NonNullable<Parameters<typeof readLines>[2]>) {
  const content = lines.join('\n');
  const bytes = (async function* () {
    yield Buffer.from(content);
  })();
  return await Array.fromAsync(readLines(bytes, sourceOf(content), erased));
}

test.each([
  ['own', (id: string, input: string) => JSON.stringify({ id, input }), 'the line has the id of line 1'],
  [
    'OpenAI',
    (id: string, input: string) =>
      JSON.stringify({ custom_id: id, body: { messages: [{ role: 'user', content: input }] } }),
    'the line has the id of line 1',
  ],
])('a line of the form %s has the id of an earlier one also when that one was erased', async (_, line, problem) => {
  const lines = [line('a', 'one'), line('b', 'two'), line('a', 'three'), line('b', 'four')];
  const whole = await readErased(lines, new Map());
  const [first] = whole;
  const mark = { key: first?.key ?? '', idDigest: digestOfId('a') };
  const left = ['-'.padEnd(first?.length ?? 0, ' '), ...lines.slice(1)];
  const rest = await readErased(left, new Map([[0, mark]]));
  expect(rest.map(({ key, kind }) => [key, kind])).toEqual(whole.map(({ key, kind }, at) => [key, at ? kind : 'bad']));
  expect(saidBy(rest[2])).toContain(problem);
});

test('lines that were erased are wrong and keep their keys, and so does every other line', async () => {
  const line = (input: string) => JSON.stringify({ input });
  const whole = await readErased([line('a'), line('a'), line('b'), line('a')], new Map());
  const keys = whole.map(({ key }) => key);
  const gap = '-'.padEnd(line('a').length, ' ');
  const left = [gap, line('a'), gap, line('a')];
  const offsets = [0, 2].map((at) => whole[at]?.offset ?? 0);
  const rest = await readErased(left, new Map(offsets.map((offset, i) => [offset, { key: keys[i * 2] ?? '' }])));
  expect(rest.map(({ key, kind }) => [key, kind])).toEqual(keys.map((key, at) => [key, at % 2 ? 'request' : 'bad']));
  // A line that was one of output when it was erased.
  const unknown = await readErased(left, new Map(offsets.map((offset) => [offset, { key: '' }])));
  expect(new Set(unknown.map(({ key }) => key)).size).toBe(4);
});
