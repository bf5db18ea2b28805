import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ArrayScanner, LineScanner } from '../../../src/producer/http/bulk-items.ts';
import { BodyBytes } from '../../../src/producer/http/read-body.ts';

/** What the items of a body are when its bytes arrive in chunks of these lengths. */
function itemsOf(scanner: LineScanner | ArrayScanner, body: string, lengths: readonly number[]): unknown[] {
  using bytes = new BodyBytes();
  const all = Buffer.from(body);
  for (let at = 0, i = 0; at < all.length; i++) {
    const chunk = all.subarray(at, at + (lengths[i % lengths.length] ?? 1));
    scanner.write(chunk);
    bytes.add(chunk);
    at += chunk.length;
  }
  return scanner.end().map(({ start, end }) => JSON.parse(bytes.take(start, end).toString()));
}

const chunking = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 });
const items = fc.array(fc.json({ stringUnit: 'binary' }), { minLength: 1, maxLength: 20 });
const blank = fc.constantFrom('', ' ', '\n', '\r\n\t ');

test('the elements of an array are found wherever its chunks end', () => {
  const holds = fc.property(items, chunking, blank, (texts, lengths, space) => {
    const body = `${space}[${space}${texts.join(`${space},${space}`)}${space}]${space}`;
    expect(itemsOf(new ArrayScanner(), body, lengths)).toEqual(texts.map((text) => JSON.parse(text)));
  });
  fc.assert(holds);
});

test('the lines of a body are found wherever its chunks end', () => {
  const holds = fc.property(items, chunking, blank, (texts, lengths, space) => {
    const body = `${space}${texts.join(`${space}\n`)}${space}`;
    expect(itemsOf(new LineScanner(), body, lengths)).toEqual(texts.map((text) => JSON.parse(text)));
  });
  fc.assert(holds);
});

test.for([
  ['', 'invalid_json'],
  ['  ', 'invalid_json'],
  ['[', 'invalid_json'],
  ['[1', 'invalid_json'],
  ['[1,]', 'invalid_json'],
  ['[,1]', 'invalid_json'],
  ['[1 2]', 'invalid_json'],
  ['[1]]', 'invalid_json'],
  ['[1]x', 'invalid_json'],
  ['[1]2', 'invalid_json'],
  ['[1][2]', 'invalid_json'],
  ['[}', 'invalid_json'],
  ['[tru]', 'invalid_json'],
  ['\uFEFF[1]', 'invalid_json'],
  ['{}', 'validation'],
  ['7 ', 'validation'],
])('%s is no array of items', ([body = '', code]) => {
  for (const length of [1, 100])
    expect(() => itemsOf(new ArrayScanner(), body, [length])).toThrow(expect.objectContaining({ code }));
});

test('an empty array has no items', () => {
  expect(itemsOf(new ArrayScanner(), ' [ ] ', [1])).toEqual([]);
});
