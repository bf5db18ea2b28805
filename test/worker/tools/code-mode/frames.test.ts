import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { FrameReader, frameOf } from '../../../../src/worker/tools/code-mode/protocol.ts';
import { processMessage } from '../../../../src/worker/tools/code-mode/process.ts';

test('messages come out as they went in, however the bytes are cut', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), fc.array(fc.integer({ min: 1, max: 9 })), (texts, cuts) => {
      const bytes = Buffer.concat(texts.map(frameOf));
      const reader = new FrameReader(1_000);
      const read: string[] = [];
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        const size = cuts[turn % cuts.length] ?? bytes.length;
        read.push(...reader.push(bytes.subarray(at, at + size)));
        at += size;
      }
      expect(read).toEqual(texts);
    }),
  );
});

test('a message over the bound is refused at its length, before any of it is kept', () => {
  const reader = new FrameReader(10);
  expect(reader.push(frameOf('0123456789'))).toEqual(['0123456789']);
  const header = Buffer.alloc(4);
  header.writeUInt32LE(11);
  expect(() => reader.push(header)).toThrow('a message of 11 bytes is over 10');
});

const unknown: readonly unknown[] = [
  null,
  [],
  'ready',
  { t: 'other' },
  { t: 'ready', more: 1 },
  { t: 'call', id: 0, name: 'echo', args: '{}' },
  { t: 'call', id: 1, name: 'x'.repeat(65), args: '{}' },
  { t: 'call', id: 1, name: 'echo', args: {} },
  { t: 'done', outcome: { ok: true, json: 1 }, logs: [], isSpent: false },
  { t: 'done', outcome: { ok: false, reason: 'other', message: '' }, logs: [], isSpent: false },
  { t: 'done', outcome: { ok: true }, logs: Array.from({ length: 102 }, () => ''), isSpent: false },
  { t: 'done', outcome: { ok: true }, logs: ['x'.repeat(502)], isSpent: false },
];

test.each(unknown.map((message) => [JSON.stringify(message).slice(0, 80), message]))(
  'a process cannot say %s',
  (_, message) => {
    expect(processMessage.safeParse(message).success).toBe(false);
  },
);
