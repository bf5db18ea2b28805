import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { wireJson } from '../../../src/producer/http/wire-json.ts';

// oxlint-disable-next-line no-control-regex
const raw = /[\u0000-\u001F\u007F-\u009F\u2028\u2029]/;

test('every control character, and what ends a line for some readers, leaves as an escape', () => {
  for (const code of [0, 7, 0x1f, 0x7f, 0x80, 0x85, 0x9f, 0x2028, 0x2029]) {
    const escape = `\\u${code.toString(16).padStart(4, '0')}`;
    expect(wireJson(`a${String.fromCharCode(code)}b`)).toBe(`"a${escape}b"`);
  }
  expect(wireJson({ text: 'äöü 漢字 🎉 \u00a0' })).toBe('{"text":"äöü 漢字 🎉 \u00a0"}');
});

test('the value that is read back is the one that was sent', () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.array(fc.constantFrom('\n\nevent: x', '\u007f', '\u0085', '\u2028', '\\')),
      (value, more) => {
        const sent = { value, more: more.join('') };
        const written = wireJson(sent);
        expect(raw.test(written)).toBe(false);
        expect(JSON.parse(written)).toEqual(JSON.parse(JSON.stringify(sent)));
      },
    ),
  );
});
