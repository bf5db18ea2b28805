import * as fc from 'fast-check';
import { createParser } from 'eventsource-parser';
import { expect, test } from 'vitest';
import { SseSplitter, type SseVerdict } from '../../../../src/worker/llm/openai/sse.ts';

const wide = { maxLineBytes: 1_000_000, maxBytes: 1_000_000 };

function split(chunks: Iterable<Uint8Array>, limits = wide): { payloads: string[]; verdict: SseVerdict } {
  const payloads: string[] = [];
  const splitter = new SseSplitter(limits, (payload) => payloads.push(payload));
  let verdict: SseVerdict = 'ok';
  for (const chunk of chunks) verdict = splitter.push(chunk);
  splitter.end();
  return { payloads, verdict };
}

/** Bytes cut at these places, and each piece wiped once it was handed over, as a transport may reuse its buffers. */
function* cut(bytes: Buffer, places: readonly number[]): Generator<Uint8Array> {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  let start = 0;
  for (const end of [...ends, bytes.length]) {
    const piece = Buffer.from(bytes.subarray(start, end));
    yield piece;
    piece.fill(0x23);
    start = end;
  }
}

const line = fc.oneof(
  fc.string({ unit: 'grapheme' }).map((text) => `data: ${text.replace(/[\r\n]/g, ' ')}`),
  fc.string().map((text) => `data:${text.replace(/[\r\n]/g, ' ')}`),
  fc.constantFrom('', ': comment', 'event: x', 'id: 4', 'data', 'database: no', 'retry: 5'),
);
const events = fc
  .tuple(fc.array(line, { maxLength: 30 }), fc.constantFrom('\n', '\r\n'))
  .map(([lines, end]) => `${lines.join(end)}${end}${end}`);

test('any way of cutting a stream into packets gives the same payloads', () => {
  fc.assert(
    fc.property(events, fc.array(fc.nat(2_000), { maxLength: 40 }), (text, places) => {
      const bytes = Buffer.from(text);
      expect(split(cut(bytes, places)).payloads).toEqual(split([bytes]).payloads);
    }),
  );
});

test('the payloads are those of a full parser of the format', () => {
  fc.assert(
    fc.property(events, (text) => {
      const expected: string[] = [];
      const parser = createParser({ onEvent: (event) => expected.push(event.data) });
      parser.feed(text);
      // A data field without a colon is an empty line to the letter of the format; no provider sends one.
      fc.pre(!/^data$/m.test(text));
      expect(split([Buffer.from(text)]).payloads).toEqual(expected);
    }),
  );
});

test('a byte order mark in front does not hide the first event', () => {
  expect(split([Buffer.from('\uFEFFdata: 1\n\n')]).payloads).toEqual(['1']);
});

test('what the last lines had comes out although their ends are missing', () => {
  expect(split([Buffer.from('data: 1\n\ndata: 2')]).payloads).toEqual(['1', '2']);
});

test('a line over its limit stops everything, in one packet or in many', () => {
  const limits = { maxLineBytes: 100, maxBytes: 10_000 };
  const long = Buffer.from(`data: ${'x'.repeat(100)}\n\ndata: after\n\n`);
  expect(split([long], limits)).toEqual({ payloads: [], verdict: 'line' });
  expect(
    split(
      [...long].map((byte) => Uint8Array.of(byte)),
      limits,
    ),
  ).toEqual({ payloads: [], verdict: 'line' });
});

test('a line that never ends is noticed before its end', () => {
  const pieces = Array.from({ length: 3 }, () => Buffer.alloc(50, 0x78));
  expect(split(pieces, { maxLineBytes: 100, maxBytes: 10_000 }).verdict).toBe('line');
});

test('a payload of many lines has the limit of a line', () => {
  const text = Buffer.from(`${`data: ${'x'.repeat(40)}\n`.repeat(4)}\n`);
  expect(split([text], { maxLineBytes: 100, maxBytes: 10_000 })).toEqual({ payloads: [], verdict: 'line' });
});

test('comments count towards the limit of the stream', () => {
  const comment = Buffer.from(': keep-alive\n\n');
  expect(
    split(
      Array.from({ length: 10 }, () => comment),
      { maxLineBytes: 100, maxBytes: 100 },
    ).verdict,
  ).toBe('stream');
});
