import { expect, test } from 'vitest';
import {
  isPlainText,
  pagesOf,
  pixelSizeOf,
  plainMediaType,
  readKindOf,
  sniffed,
} from '../../../src/shared/base/media-type.ts';
import { fixtureFile } from '../../support/input-files.ts';

test.each([
  ['mill.png', 'image/png'],
  ['mill.jpg', 'image/jpeg'],
  ['mill.gif', 'image/gif'],
  ['mill.webp', 'image/webp'],
  ['mill-lossless.webp', 'image/webp'],
])('the head of %s says that it is %s of 48 by 32 pixels', (name, mediaType) => {
  const bytes = fixtureFile(name);
  expect(sniffed(bytes)).toEqual({ mediaType, kind: 'image' });
  expect(pixelSizeOf(bytes)).toEqual({ width: 48, height: 32 });
});

test('a head that is cut short, or lies, has no size and harms nothing', () => {
  for (const name of ['mill.png', 'mill.jpg', 'mill.gif', 'mill.webp', 'mill-lossless.webp']) {
    const bytes = fixtureFile(name);
    for (let length = 0; length < Math.min(bytes.length, 64); length++)
      expect(() => pixelSizeOf(bytes.subarray(0, length))).not.toThrow();
    expect(pixelSizeOf(bytes.subarray(0, 8))).toBeUndefined();
  }
  const endless = Buffer.concat([Buffer.from([0xff, 0xd8]), Buffer.alloc(64, 0xff)]);
  expect(pixelSizeOf(endless)).toBeUndefined();
  expect(pixelSizeOf(Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0, 0, 0, 0]))).toBeUndefined();
});

test('the pages of a PDF are counted where they stand in the open', () => {
  expect(sniffed(fixtureFile('invoice.pdf'))).toEqual({ mediaType: 'application/pdf', kind: 'pdf' });
  expect(pagesOf(fixtureFile('invoice.pdf'))).toBe(2);
  expect(pagesOf(Buffer.from('%PDF-1.7 /Type /Pages /Type /ObjStm'))).toBeUndefined();
});

test('markup is text, and what no model is given has no kind', () => {
  for (const type of ['text/html', 'text/csv', 'image/svg+xml', 'application/json', 'application/xml'])
    expect(readKindOf(type)).toBe('text');
  for (const type of ['image/tiff', 'application/zip', 'application/octet-stream', 'audio/mpeg', 'application/msword'])
    expect(readKindOf(type)).toBeUndefined();
  expect(plainMediaType('Image/JPG; q=1')).toBe('image/jpeg');
});

test('text is what is UTF-8 without zero bytes and is no image', () => {
  expect(isPlainText(Buffer.from('Grüße'))).toBe(true);
  expect(isPlainText(Buffer.from([0x47, 0x72, 0xfc, 0xdf]))).toBe(false);
  expect(isPlainText(Buffer.from('a\0b'))).toBe(false);
  expect(isPlainText(Buffer.from('%PDF-1.4'))).toBe(false);
});
