import { isUtf8 } from 'node:buffer';

/** What a model reads a file as. */
export type ReadKind = 'image' | 'pdf' | 'text';

/** Every image and document that is read; the type is what the first bytes say. */
const magic: readonly (readonly [mediaType: string, kind: ReadKind, is: (head: Uint8Array) => boolean])[] = [
  ['image/png', 'image', (head) => startsWith(head, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
  ['image/jpeg', 'image', (head) => startsWith(head, [0xff, 0xd8, 0xff])],
  ['image/gif', 'image', (head) => /^GIF8[79]a/.test(latin1(head, 0, 6))],
  ['image/webp', 'image', (head) => latin1(head, 0, 4) === 'RIFF' && latin1(head, 8, 12) === 'WEBP'],
  ['application/pdf', 'pdf', (head) => latin1(head, 0, 5) === '%PDF-'],
];

/** Beside all of `text/`. Markup with scripts in it, like SVG and HTML, is only ever read as text. */
const texts: ReadonlySet<string> = new Set([
  'application/json',
  'application/jsonl',
  'application/x-ndjson',
  'application/xml',
  'application/yaml',
  'application/x-yaml',
  'application/toml',
  'application/sql',
  'application/javascript',
  'image/svg+xml',
]);

/** For refusals. */
export const readTypes = 'png, jpeg, gif and webp images, PDF, and text (text/*, JSON, XML, YAML)';

/** The type without parameters, in lower case. */
export function plainMediaType(mediaType: string): string {
  const plain = mediaType.split(';')[0]?.trim().toLowerCase() ?? '';
  return plain === 'image/jpg' ? 'image/jpeg' : plain;
}

/** Undefined: no model is given such a file. */
export function readKindOf(mediaType: string): ReadKind | undefined {
  const known = magic.find(([type]) => type === mediaType);
  if (known) return known[1];
  return mediaType.startsWith('text/') || texts.has(mediaType) ? 'text' : undefined;
}

/** The type of an image or a PDF, by its first bytes. */
export function sniffed(head: Uint8Array): { readonly mediaType: string; readonly kind: ReadKind } | undefined {
  const found = magic.find(([, , is]) => is(head));
  return found && { mediaType: found[0], kind: found[1] };
}

/** Are these the bytes of a text? */
export function isPlainText(bytes: Uint8Array): boolean {
  return !bytes.includes(0) && sniffed(bytes) === undefined && isUtf8(bytes);
}

export interface PixelSize {
  readonly width: number;
  readonly height: number;
}

/** The size of an image, as its head says. Undefined: it is not there, or not one that can be. */
export function pixelSizeOf(bytes: Uint8Array): PixelSize | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const { width, height } = sizeIn(view, sniffed(bytes)?.mediaType) ?? { width: 0, height: 0 };
    return width > 0 && height > 0 ? { width, height } : undefined;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function sizeIn(view: DataView, mediaType: string | undefined): PixelSize | undefined {
  switch (mediaType) {
    case 'image/png':
      return { width: view.getUint32(16), height: view.getUint32(20) };
    case 'image/gif':
      return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
    case 'image/jpeg':
      return jpegSize(view);
    case 'image/webp':
      return webpSize(view);
    default:
      return undefined;
  }
}

/** Of the first frame header. */
function jpegSize(view: DataView): PixelSize | undefined {
  for (let at = 2; ;) {
    while (view.getUint8(at) === 0xff) at++;
    const marker = view.getUint8(at++);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return { height: view.getUint16(at + 3), width: view.getUint16(at + 5) };
    const length = view.getUint16(at);
    if (length < 2) return undefined;
    at += length;
  }
}

function webpSize(view: DataView): PixelSize | undefined {
  const uint24 = (at: number) => view.getUint16(at, true) + (view.getUint8(at + 2) << 16);
  switch (String.fromCharCode(...[12, 13, 14, 15].map((at) => view.getUint8(at)))) {
    case 'VP8 ':
      return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
    case 'VP8L': {
      const bits = view.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8X':
      return { width: uint24(24) + 1, height: uint24(27) + 1 };
    default:
      return undefined;
  }
}

const pageMark = /\/Type\s{0,8}\/Page(?![A-Za-z])/g;
/** The longest mark, and what may not follow it. */
const markChars = 24;

/** Counts the pages of a PDF that names them in the open, piece by piece. */
export class PageCounter {
  #count = 0;
  #rest = '';

  add(bytes: Uint8Array): void {
    const text = this.#rest + latin1(bytes, 0, bytes.length);
    const until = Math.max(0, text.length - markChars);
    for (const { index } of text.matchAll(pageMark)) if (index < until) this.#count++;
    this.#rest = text.slice(until);
  }

  /** Undefined: they are within compressed objects. */
  end(): number | undefined {
    const count = this.#count + (this.#rest.match(pageMark)?.length ?? 0);
    return count === 0 ? undefined : count;
  }
}

/** {@link PageCounter}, for all bytes at once. */
export function pagesOf(bytes: Uint8Array): number | undefined {
  const counter = new PageCounter();
  counter.add(bytes);
  return counter.end();
}

function startsWith(bytes: Uint8Array, head: readonly number[]): boolean {
  return head.every((byte, at) => bytes[at] === byte);
}

function latin1(bytes: Uint8Array, from: number, to: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1', from, to);
}

const typesByEnding: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  pdf: 'application/pdf',
  json: 'application/json',
  jsonl: 'application/jsonl',
  ndjson: 'application/x-ndjson',
  csv: 'text/csv',
  tsv: 'text/tab-separated-values',
  txt: 'text/plain',
  log: 'text/plain',
  md: 'text/markdown',
  html: 'text/html',
  svg: 'image/svg+xml',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
};

/** What a file is by its name. Undefined: the name does not say. */
export function typeByName(name: string): string | undefined {
  return typesByEnding[name.split('.').at(-1)?.toLowerCase() ?? ''];
}
