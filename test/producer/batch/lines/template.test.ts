import { expect, test } from 'vitest';
import { read, readCsv, saidBy, sourceOf } from './support.ts';

test('a template makes the input of a row from its columns', async () => {
  const lines = await readCsv('id,city,Order no.,agent\n1,Bonn,7,\n2,"K\u00f6ln, {{ id }}",8,other\n', {
    inputTemplate: 'Where is {{ row["Order no."] }} of {{ city | upper }}?',
  });
  expect(lines).toMatchObject([
    { id: '1', request: { agent: 'support', input: 'Where is 7 of BONN?' } },
    { id: '2', request: { agent: 'other', input: 'Where is 8 of K\u00d6LN, {{ ID }}?' } },
  ]);
});

test('a template makes the input of a line of JSONL from its fields, whatever they are called', async () => {
  const first = { id: '1', task: 'clean', where: { city: 'Bonn' }, metadata: { k: 'v' } };
  const content = [first, 'plain', { task: 'x', input: 'y' }].map((line) => JSON.stringify(line)).join('\n');
  const inputTemplate = '{{ task | default("-") }}, {{ where.city | default("-") }}: {{ row.input | default("-") }}';
  const lines = await read(content, { inputTemplate });
  expect(lines.map(saidBy)).toEqual(['clean, Bonn: -', '-, -: plain', 'x, -: y']);
  expect(lines[0]).toMatchObject({ id: '1', request: { metadata: { k: 'v' } } });
  expect(lines[0]).not.toHaveProperty('request.task');
});

test('a line without a field that the template needs is bad, and the next is not', async () => {
  const lines = await read('{"id":"a","city":"Bonn"}\n{"id":"b"}\n{"city":"Ulm"}\n', {
    inputTemplate: 'In {{ city }}',
  });
  expect(lines.map(saidBy)).toEqual([
    'In Bonn',
    'the line does not fit inputTemplate: {{ city }}: there is no such value; add | default("\u2026") if it may be missing',
    'In Ulm',
  ]);
  expect(lines[1]).toMatchObject({ kind: 'bad', id: 'b' });
});

test('another template makes other lines', async () => {
  const keyOf = async (inputTemplate: string) => (await readCsv('a\n1\n', { inputTemplate }))[0]?.key;
  expect(await keyOf('{{ a }}')).toBe(await keyOf('{{a}}'));
  expect(await keyOf('{{ a }}')).not.toBe(await keyOf('{{ a }}!'));
});

test.each([
  ['{{ citty }}', 'there is no column citty; did you mean city?; known are id, city'],
  ['{{ row["City"] }}', 'there is no column City; did you mean city?'],
  ['no field at all', 'refers to no field'],
  ['{{ city | shout }}', '{{ city | shout }}: there is no filter shout here'],
  ['{{ city | read_file }}', 'there is no filter read_file here'],
  ['{{ city', 'has no end'],
  ['{{ secrets.key }} {{ city }}', 'must not refer to {{ secrets.* }}'],
])('the template %s is refused before the first line', (inputTemplate, problem) => {
  expect(() => sourceOf('id,city\n1,Bonn\n', { filename: 'in.csv', inputTemplate })).toThrow(problem);
});

test('a field that no line of JSONL begins with is refused before the first line, unless it has a default', () => {
  const content = '{"id":"1","city":"Bonn"}\n"text"\n';
  expect(() => sourceOf(content, { inputTemplate: '{{ citty }}' })).toThrow(
    'there is no field citty; did you mean city?; known are id, city, input',
  );
  sourceOf(content, { inputTemplate: '{{ citty | default("") }} {{ input | default("") }}' });
  sourceOf('nothing that can be read\n', { inputTemplate: '{{ city }}' });
});
