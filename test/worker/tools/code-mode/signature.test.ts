import { expect, test } from 'vitest';
import { z } from 'zod';
import { findTools } from '../../../../src/worker/tools/code-mode/tools.ts';
import { signatureOf } from '../../../../src/worker/tools/code-mode/signature.ts';
import type { CatalogueEntry } from '../../../../src/worker/tools/tool.ts';

function entry(name: string, parameters: unknown, about: Partial<CatalogueEntry> = {}): CatalogueEntry {
  return {
    name,
    description: `Does ${name}.`,
    parameters: parameters as Record<string, unknown>,
    deferred: false,
    trust: 'built-in',
    gated: false,
    ...about,
  };
}

const ofSchema = (schema: z.ZodType) => entry('it', z.toJSONSchema(schema, { io: 'input' }));

test('a tool is declared as a script calls it', () => {
  const schema = z.object({
    path: z.string(),
    lines: z.tuple([z.int(), z.int()]).optional(),
    mode: z.enum(['text', 'bytes']).default('text'),
    tags: z.array(z.union([z.string(), z.null()])),
    'max-size': z.number().optional(),
    where: z.object({ any: z.record(z.string(), z.boolean()) }).optional(),
  });
  expect(signatureOf(ofSchema(schema))).toBe(
    '/** Does it. */\n' +
      'tools.it(args: { path: string; lines?: [number, number]; mode?: "text" | "bytes"; tags: (string | null)[]; ' +
      '"max-size"?: number; where?: { any: Record<string, boolean> } }): Promise<unknown>',
  );
});

test('what its parameters are for is shown beside them', () => {
  const schema = z.object({ city: z.string().describe('Where.\nIn English.') });
  expect(signatureOf(ofSchema(schema))).toBe(
    '/**\n * Does it.\n * @param args.city Where. In English.\n */\ntools.it(args: { city: string }): Promise<unknown>',
  );
});

test('a name that is no identifier is put in quotes', () => {
  expect(signatureOf(entry('read-file', { type: 'object' }))).toContain(
    'tools["read-file"](args?: Record<string, unknown>)',
  );
});

test('a tool that needs approval says that a script cannot call it', () => {
  expect(signatureOf(entry('pay', { type: 'object' }, { gated: true }))).toContain('NEEDS APPROVAL: call it directly');
});

test('a schema that points at itself ends somewhere', () => {
  const tree = { type: 'object', properties: { child: { $ref: '#' }, other: { $ref: '#/properties/child' } } };
  const text = signatureOf(entry('walk', tree));
  expect(text).toContain('child?: {');
  expect(text.length).toBeLessThanOrEqual(2_000);
});

const hostile: readonly [string, unknown][] = [
  ['a reference outside', { type: 'object', properties: { a: { $ref: 'http://evil.test/x.json' } } }],
  ['a reference to the prototype', { type: 'object', properties: { a: { $ref: '#/constructor/prototype' } } }],
  [
    'a thousand fields',
    {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`f${n}`, { type: 'string' }])),
    },
  ],
  [
    'a union without end',
    { type: 'object', properties: { a: { enum: Array.from({ length: 1_000 }, (_, n) => `value ${n}`) } } },
  ],
  ['fields that are no schemas', { type: 'object', properties: { a: null, b: 1, c: [] }, required: 'all' }],
  ['no schema at all', { type: 7 }],
  ['a long description', { type: 'object', properties: { a: { description: '*/ '.repeat(10_000) } } }],
  [
    'a fan of references',
    {
      type: 'object',
      properties: { a: { $ref: '#/$defs/a' } },
      $defs: {
        a: {
          type: 'object',
          properties: Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`f${n}`, { $ref: '#/$defs/a' }])),
        },
      },
    },
  ],
];

test.each(hostile)('%s makes a short declaration', (_, schema) => {
  const text = signatureOf(entry('odd', schema, { description: '*/ evil() /*'.repeat(1_000) }));
  expect(text.length).toBeLessThanOrEqual(2_000);
  expect(text.match(/\*\//g)).toHaveLength(1);
  expect(text).toContain('tools.odd(args');
});

const catalogue = [
  entry('listFiles', { type: 'object' }, { description: 'Lists a folder.' }),
  entry(
    'send_mail',
    { type: 'object', properties: { recipient: { type: 'string' } } },
    { description: 'Sends a letter.' },
  ),
  entry('read_file', { type: 'object' }, { description: 'Answers the content of a file of a folder.' }),
];
const namesIn = (text: string) => [...text.matchAll(/^tools\.(\w+)/gm)].map(([, name]) => name);

test.each([
  ['file', ['read_file', 'listFiles']],
  ['FOLDERS', ['listFiles', 'read_file']],
  ['recipient', ['send_mail']],
  ['mail letters', ['send_mail']],
  ['', ['listFiles', 'read_file', 'send_mail']],
  ['nothing like it', []],
])('the search for %j finds the tools that fit, best first', (query, names) => {
  expect(namesIn(findTools(catalogue, query, 8).text)).toEqual(names);
});

test('the search says how many there are beside those that it shows', () => {
  expect(findTools(catalogue, 'file', 1).text).toContain('1 of 2 tools');
  expect(findTools(catalogue, 'unheard', 1).text).toContain('No tool fits. There are 3');
});

test('the answer is bounded, however many tools fit', () => {
  const many = Array.from({ length: 500 }, (_, n) =>
    entry(`tool_${n}`, { type: 'object' }, { description: 'x '.repeat(500) }),
  );
  expect(findTools(many, 'tool', 25).text.length).toBeLessThanOrEqual(25_000);
});
