import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { sha256 } from '../../../../src/shared/base/ids.ts';
import { guardProtocol, neutralised, NeutralisedPieces } from '../../../../src/worker/guards/leaks/protocol.ts';

const modes = ['escape', 'replace', 'reject'] as const;

test('tabs, line ends and everything printable stay as they are', () => {
  const text = 'a\tb\nc\r\nd\n\ne äöü 漢字 🎉 \u0085 \u2028 event: x data: y\nevent: z';
  for (const mode of modes) expect(guardProtocol(text, mode)).toEqual({ text });
});

test('each control character is found, and no other', () => {
  for (let code = 0; code < 0x100; code++) {
    const isFound = (code < 0x20 && ![0x09, 0x0a, 0x0d].includes(code)) || code === 0x7f;
    expect([code, guardProtocol(`a${String.fromCharCode(code)}b`, 'escape').leak !== undefined]).toEqual([
      code,
      isFound,
    ]);
  }
});

test.each([
  ['escape', 'escaped', String.raw`a\u0000b\u007f\n\nevent: x`],
  ['replace', 'replaced', 'a\uFFFDb\uFFFD\uFFFD\uFFFDevent: x'],
  ['reject', 'rejected', String.raw`a\u0000b\u007f\n\nevent: x`],
] as const)('%s', (mode, decision, text) => {
  const given = 'a\u0000b\u007f\n\nevent: x';
  const leak = {
    vector: 'protocol',
    severity: 'high',
    decision,
    contentSha256: sha256(given),
  };
  expect(guardProtocol(given, mode)).toEqual({ text, leak });
});

test.each(['\n\n', '\r\r', '\r\n\r\n', '\n\r', '\n\r\n'])('a frame break of %j', (lines) => {
  for (const field of ['event', 'data', 'id', 'retry']) {
    const { text, leak } = guardProtocol(`before${lines}${field}: x`, 'escape');
    expect(leak?.severity).toBe('high');
    expect(text).not.toMatch(/[\r\n]/);
  }
  expect(guardProtocol(`before${lines}other: x`, 'escape').leak).toBeUndefined();
});

test('a control alone is of low severity', () => {
  expect(guardProtocol('\u0007', 'escape').leak?.severity).toBe('low');
});

const pieces = fc.array(
  fc.oneof(
    fc.constantFrom(
      '\n',
      '\r',
      '\r\n',
      '\n\n',
      'event',
      'even',
      't',
      ':',
      'data',
      'id:',
      're',
      'try:',
      '\u0000',
      'x',
      ' ',
    ),
    fc.string({ maxLength: 4 }),
  ),
  { maxLength: 30 },
);

test('nothing is left to be found, and doing it twice changes nothing more', () => {
  fc.assert(
    fc.property(pieces, fc.constantFrom('escape', 'replace'), (parts, mode) => {
      const once = neutralised(parts.join(''), mode);
      expect(guardProtocol(once, mode)).toEqual({ text: once });
    }),
  );
});

test('pieces become together what the whole becomes, wherever it was cut', () => {
  fc.assert(
    fc.property(pieces, fc.constantFrom('escape', 'replace'), (parts, mode) => {
      const stream = new NeutralisedPieces(mode);
      const shown = [...parts.map((part) => stream.push(part)), stream.end()].join('');
      expect(shown).toBe(neutralised(parts.join(''), mode));
    }),
    { numRuns: 2_000 },
  );
});
