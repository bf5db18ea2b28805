import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Needle } from '../../../../src/worker/guards/flow/spans.ts';
import { decodingsOf, turned } from '../../../../src/worker/guards/flow/decode.ts';
import { formOf, isEdge, unitsIn } from '../../../../src/worker/guards/flow/normalise.ts';
import { called, found, memoryOf, page, said } from './conversation.ts';

const word = fc.string({
  unit: fc.constantFrom(...'abcdefghijklmnopqrstuvwxyz'.split('')),
  minLength: 1,
  maxLength: 6,
});
const words = (minLength: number, maxLength: number) =>
  fc.array(word, { minLength, maxLength }).map((all) => all.join(' '));
const passage = words(20, 40).filter((text) => text.replaceAll(' ', '').length >= 40);

type Writing = (text: string) => string;
const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');
const coded =
  (write: (code: number) => string): Writing =>
  (text) =>
    Array.from(text, (one) => write(one.charCodeAt(0))).join('');
const writing = fc.constantFrom<Writing>(
  (text) => Buffer.from(text).toString('base64'),
  (text) => Buffer.from(text).toString('base64url'),
  (text) => Buffer.from(text).toString('hex'),
  (text) => JSON.stringify({ a: [text] }),
  (text) => text.replaceAll(' ', '_'),
  encodeURIComponent,
  coded((code) => `%${hex(code, 2)}`),
  coded((code) => `\\u${hex(code, 4)}`),
  coded((code) => `\\x${hex(code, 2)}`),
  coded((code) => `&#${code};`),
);
const unseen: Writing = (text) => Array.from(text).join('\u200D');
const writings = fc
  .tuple(fc.array(writing, { maxLength: 3 }), fc.boolean())
  .map(([all, isUnseen]) => (isUnseen ? [...all.slice(0, 2), unseen] : all));

test('a passage is found in any three writings, whatever stands around it', () => {
  fc.assert(
    fc.property(words(0, 40), passage, words(0, 40), words(0, 10), writings, (before, text, after, own, all) => {
      // The three writings come last: what is decoded is what was encoded.
      const written = all.reduce((now, write) => write(now), text);
      expect(
        found([page(`${before} ${text} ${after}`)], { args: { x: own, y: `${own}: ${written}` } }).join(),
      ).toContain('untrusted-to-sink');
    }),
    { numRuns: 60 },
  );
});

test('a passage is found in pieces of some words, over arguments and calls, in any order', () => {
  const pieces = fc.array(fc.integer({ min: 10, max: 19 }), { minLength: 3, maxLength: 5 });
  fc.assert(
    fc.property(
      words(0, 20),
      passage,
      pieces,
      fc.infiniteStream(fc.nat(9)),
      fc.boolean(),
      (around, text, sizes, order, inOne) => {
        const letters = text.replaceAll(' ', '');
        let at = 0;
        const parts = sizes.flatMap((size) => {
          const part = letters.slice(at, (at += size));
          return part.length >= 10 ? [part] : [];
        });
        const sent = parts.map((part) => ({ part, key: order.next().value as number })).sort((a, b) => a.key - b.key);
        const last = sent.at(-1);
        const world = [page(`${around}. ${text}`)];
        const args = Object.fromEntries(sent.map(({ part }, place) => [`field${place}`, `- ${part} -`]));
        const calls = inOne ? [] : sent.slice(0, -1).map(({ part }) => ({ text: `- ${part} -` }));
        const before = (count: number) => [...world, ...calls.slice(0, count).map((one) => called('send', one))];
        const all = [...calls, inOne ? args : { text: `- ${last?.part} -` }];
        expect(all.flatMap((one, place) => found(before(place), { args: one })).join()).toContain('untrusted-to-sink');
      },
    ),
    { numRuns: 60 },
  );
});

test('texts that share nothing of a passage are not found, and neither is what the user wrote himself', () => {
  const other = fc
    .string({ unit: fc.constantFrom(...'0123456789'.split('')), minLength: 0, maxLength: 60 })
    .map((text) => `Nr ${text}`);
  fc.assert(
    fc.property(words(0, 200), other, passage, writings, (text, args, own, all) => {
      const written = all.reduce((now, write) => write(now), args);
      expect(found([page(text)], { args: { x: written }, policy: { trackValues: false } })).toEqual([]);
      expect(found([said(own), page(`${text} ${own}`)], { args: { x: own } })).toEqual([]);
    }),
    { numRuns: 60 },
  );
});

test('what a label says is enough to find a passage again where the text has gone', () => {
  fc.assert(
    fc.property(words(0, 30), passage, words(0, 30), writings, (before, text, own, all) => {
      const written = `${own} ${all.reduce((now, write) => write(now), text)} ${own}`;
      const label = memoryOf([said(own), page(`${before} ${text}`)]).labelOf(written);
      expect(found([said(written, label)], { args: { x: text } }).join()).toContain('untrusted-to-sink');
    }),
    { numRuns: 60 },
  );
});

/** For each end of the text the longest piece of the needle that ends there: the slow way. */
function slowSpans(needle: string, text: string): string[] {
  const spans: string[] = [];
  let before = 0;
  for (let end = 1; end <= text.length + 1; end++) {
    let length = end <= text.length ? Math.min(end, needle.length) : 0;
    while (length > 0 && !needle.includes(text.slice(end - length, end))) length--;
    if (before >= 8 && length !== before + 1) spans.push(text.slice(end - 1 - before, end - 1));
    before = length;
  }
  return spans;
}

test('the pieces that two texts share are exactly those that a slow search finds', () => {
  const letters = fc.string({ unit: fc.constantFrom(...'ab'.split('')), maxLength: 80, size: 'max' });
  const cuts = fc.array(fc.tuple(fc.nat(160), fc.nat(24), fc.constantFrom('', 'c')), { maxLength: 12, size: 'max' });
  fc.assert(
    fc.property(letters, letters, cuts, (a, b, pieces) => {
      const needle = `${a}c${b}`;
      const text = pieces.map(([from, size, end]) => needle.slice(from, from + size) + end).join('');
      const spans = new Needle(formOf(needle).units).spansIn(formOf(text).units);
      expect(spans.map(({ from, to }) => text.slice(from, to))).toEqual(slowSpans(needle, text));
      for (const { from, to, end } of spans) expect(end - (to - from)).toBe(needle.indexOf(text.slice(from, to)));
    }),
    { numRuns: 500 },
  );
});

test('they are the same where the two hold so many places of one piece that these cannot be compared one by one', () => {
  const repeating = fc
    .array(fc.tuple(fc.constantFrom('a', 'ab', 'aab', 'b'), fc.integer({ min: 1, max: 60 })), {
      minLength: 1,
      maxLength: 6,
    })
    .map((runs) => runs.map(([letters, times]) => letters.repeat(times)).join(''));
  fc.assert(
    fc.property(repeating, repeating, (needle, text) => {
      const spans = new Needle(formOf(needle).units).spansIn(formOf(text).units);
      expect(spans.map(({ from, to }) => text.slice(from, to))).toEqual(slowSpans(needle, text));
      for (const { from, to, end } of spans) expect(end - (to - from)).toBe(needle.indexOf(text.slice(from, to)));
    }),
    { numRuns: 60 },
  );
});

test('no text makes the guard throw, or answer differently the second time', () => {
  const odd = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.array(fc.integer({ min: 0xd7f0, max: 0xe010 }), { maxLength: 50 }).map((codes) => String.fromCharCode(...codes)),
    fc
      .array(
        fc.constantFrom('%', '\\', '&#', '=', 'u{', '<<<', '\u0000', '\u202e', '__proto__', '0x', '{"', '+', '=\r\n'),
        { maxLength: 60 },
      )
      .map((all) => all.join('')),
  );
  fc.assert(
    fc.property(odd, odd, fc.jsonValue(), odd, (one, two, value, name) => {
      const call = {
        args: { [name]: [one, value, two], value },
        parameters: { properties: { [name]: value, $ref: '#' } },
      };
      const world = [said(two), page(one), page(JSON.stringify(value)), called('send', value)];
      expect(found(world, call)).toEqual(found(world, call));
      expect(memoryOf(world).labelOf(one + two)?.sources).toHaveLength(1);
    }),
    { numRuns: 60 },
  );
});

test('the form of a text has each of its letters and digits, and what lies before it', () => {
  const kinds = {
    a: 'letter',
    Z: 'letter',
    é: 'letter',
    '7': 'digit',
    ' ': 'sign',
    '-': 'sign',
    中: 'wide',
    ก: 'wide',
  };
  const characters = Object.keys(kinds) as (keyof typeof kinds)[];
  const slowEdge = (kind: string, before: string | undefined) => {
    if (before === undefined || before === 'sign' || kind === 'wide' || before === 'wide')
      return { hard: true, loose: true };
    return before === kind ? { hard: false, loose: false } : { hard: false, loose: true };
  };
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...characters), { maxLength: 40 }), fc.nat(60), (all, limit) => {
      const text = all.join('');
      const form = formOf(text);
      const places = all.flatMap((one, at) => (kinds[one] === 'sign' ? [] : Array(one === '中' ? 3 : 1).fill(at)));
      expect([...form.starts]).toEqual(places);
      for (const [unit, at] of places.entries()) {
        if (places[unit - 1] === at) continue;
        const edge = slowEdge(kinds[all[at] as 'a'], all[at - 1] && kinds[all[at - 1] as 'a']);
        expect(isEdge(form, unit, false)).toBe(edge.hard);
        expect(isEdge(form, unit, true)).toBe(edge.loose);
      }
      expect(unitsIn(text)).toEqual(form.units);
      expect(unitsIn(text, limit)).toEqual(form.units.slice(0, limit));
    }),
    { numRuns: 300 },
  );
});

test('a text is turned as letter by letter, whatever else is in it', () => {
  const slowly = (letter: string) => {
    const code = letter.charCodeAt(0);
    return String.fromCharCode(code + ((code | 0x20) < 0x6e ? 13 : -13));
  };
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary-ascii' })), (text) => {
      expect(turned(text)).toEqual([Array.from(text).toReversed().join(''), text.replaceAll(/[a-z]/gi, slowly)]);
    }),
    { numRuns: 300 },
  );
});

test('what can be read in some bytes is read, whatever noise stands around it', () => {
  const noise = fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes));
  const text = fc
    .array(fc.constantFrom(...Array.from('abcxyz éß中ก😀')), { minLength: 8, maxLength: 20 })
    .map((all) => all.join(''));
  fc.assert(
    fc.property(noise, text, noise, (before, word, after) => {
      const bytes = Buffer.concat([before, Buffer.from(word), after]);
      const seen = bytes.toString().match(/[\t\n\r -~\u00a0-\ud7ff\ue000-\ufffc\u{10000}-\u{10ffff}]{8,}/gu) ?? [];
      const known = seen.filter((run) => (run.match(/[a-z]/g)?.length ?? 0) >= run.length / 2);
      expect(decodingsOf(`${bytes.toString('base64')} aZ9+`).texts).toEqual(expect.arrayContaining(known));
    }),
    { numRuns: 300 },
  );
});
