import { expect, test } from 'vitest';
import { RunError } from '../../../../src/shared/base/errors.ts';
import { maxInputFileBytes, maxTextFileBytes, type InputPart } from '../../../../src/shared/contract/input-parts.ts';
import type { RunInput } from '../../../../src/shared/contract/run.ts';
import { takeInput } from '../../../../src/shared/state/inputs/take-input.ts';
import { inMemoryMedia } from '../../../../src/worker/local/stores/in-memory-results.ts';
import { base64Of, fixtureFile } from '../../../support/input-files.ts';

const fileId = `file-${'0'.repeat(26)}`;

interface Uploaded {
  readonly filename: string;
  readonly body: Buffer;
  /** Default: it says nothing. */
  readonly media_type?: string;
  /** Default: as many as there are. */
  readonly bytes?: number;
}

/** The tenant `mine` has uploaded one file. */
function makeWorld(file?: Uploaded) {
  const media = inMemoryMedia();
  const files = {
    info: async (tenant: string, id: string) =>
      file && tenant === 'mine' && id === fileId
        ? { media_type: 'application/octet-stream', ...file, bytes: file.bytes ?? file.body.length }
        : undefined,
    async *read(_tenant: string, _id: string, from = 0, to = Infinity) {
      yield file?.body.subarray(from, to) ?? Buffer.alloc(0);
    },
  };
  const take = async (input: RunInput, tenant = 'mine') =>
    await takeInput(input, { tenant, stores: { media, files }, keepS: 60, path: 'input' });
  const refusal = async (part: InputPart, tenant?: string) => {
    const thrown: unknown = await take([part], tenant).catch((error: unknown) => error);
    if (!(thrown instanceof RunError)) throw new Error('it was taken');
    return { code: thrown.code, message: thrown.message };
  };
  return { media, take, refusal };
}

test('texts become one text, and files stand beside it at their places', async () => {
  const { take, media } = makeWorld();
  const taken = await take([
    { type: 'text', text: 'Which mill is this?' },
    { type: 'image', data: base64Of('mill.png'), mediaType: 'image/png', name: 'mill.png', detail: 'low' },
    { type: 'text', text: 'And what is owed?' },
    { type: 'file', url: `data:application/pdf;base64,${base64Of('invoice.pdf')}` },
  ]);
  const [picture, invoice] = taken.files ?? [];
  expect(taken.input).toBe('Which mill is this?\n\nAnd what is owed?');
  expect(picture).toMatchObject({
    kind: 'image',
    mediaType: 'image/png',
    bytes: fixtureFile('mill.png').length,
    name: 'mill.png',
    at: 19,
    detail: 'low',
    width: 48,
    height: 32,
  });
  expect(invoice).toMatchObject({ kind: 'pdf', mediaType: 'application/pdf', name: 'pdf-2', at: 38, pages: 2 });
  const { source } = picture ?? {};
  const handle = source?.from === 'media' ? source.handle : '';
  expect(media.get('mine', handle.slice(-64))?.bytes).toEqual(fixtureFile('mill.png'));
  expect(JSON.stringify(taken)).not.toContain(base64Of('mill.png').slice(0, 40));
});

test('the same bytes have the same reference, and other bytes another one', async () => {
  const { take } = makeWorld();
  const of = async (name: string) =>
    JSON.stringify(await take([{ type: 'image', data: base64Of(name), mediaType: 'image/webp' }]));
  expect(await of('mill.webp')).toBe(await of('mill.webp'));
  expect(await of('mill.webp')).not.toBe(await of('mill-lossless.webp'));
});

test.each<[string, InputPart, string]>([
  [
    'bytes of another image',
    { type: 'image', data: base64Of('mill.gif'), mediaType: 'image/png' },
    'input.0.data: is said to be image/png, and its bytes are image/gif',
  ],
  [
    'a PDF that is called a text',
    { type: 'file', data: base64Of('invoice.pdf'), mediaType: 'text/plain' },
    'input.0.data: is said to be text/plain, and its bytes are application/pdf',
  ],
  [
    'a PDF as an image',
    { type: 'image', data: base64Of('invoice.pdf'), mediaType: 'application/pdf' },
    'input.0.data: is application/pdf, and not an image that is read: give it as a file',
  ],
  [
    'an SVG as an image',
    { type: 'image', data: Buffer.from('<svg/>').toString('base64'), mediaType: 'image/svg+xml' },
    'input.0.data: is image/svg+xml, and not an image that is read: give it as a file',
  ],
  [
    'a type that is not read',
    { type: 'file', data: 'AAAA', mediaType: 'application/zip' },
    'input.0.data: is application/zip, which no model is given',
  ],
  [
    'text that is not UTF-8',
    { type: 'file', data: Buffer.from([0xff, 0xfe, 0x41]).toString('base64'), mediaType: 'text/plain' },
    'its bytes are not text in UTF-8',
  ],
  ['what is not base64', { type: 'image', data: 'no base64!', mediaType: 'image/png' }, 'input.0.data: is not base64'],
  [
    'a data URL without base64',
    { type: 'image', url: 'data:image/png,raw' },
    'input.0.url: must be data:<media type>;base64,…',
  ],
  ['what is no URL', { type: 'image', url: 'https://' }, 'input.0.url: is no URL'],
])('%s is refused, and says which part', async (_, part, message) => {
  const { refusal } = makeWorld();
  expect(await refusal(part)).toEqual({ code: 'validation', message: expect.stringContaining(message) });
});

test('SVG and HTML are read as text', async () => {
  const { take } = makeWorld();
  const data = Buffer.from('<svg onload="x()"/>').toString('base64');
  const { files } = await take([{ type: 'file', data, mediaType: 'image/svg+xml' }]);
  expect(files).toMatchObject([{ kind: 'text', mediaType: 'image/svg+xml' }]);
});

test('a text that does not fit into a prompt, and a file over the bound, are refused', async () => {
  const long = { filename: 'log.txt', body: Buffer.alloc(maxTextFileBytes + 1, 'a'), media_type: 'text/plain' };
  const text = makeWorld(long);
  expect((await text.refusal({ type: 'file', fileId })).message).toContain('fit into a prompt');
  const large = makeWorld({ filename: 'a.png', body: fixtureFile('mill.png'), bytes: maxInputFileBytes + 1 });
  expect((await large.refusal({ type: 'image', fileId })).message).toContain(`at most ${maxInputFileBytes}`);
});

test('an uploaded file is what its bytes and its name say, and is not copied', async () => {
  const { take, media } = makeWorld({ filename: 'Q3 <report>.csv', body: Buffer.from('a,b\n1,2\n') });
  const { input, files } = await take([{ type: 'file', fileId }]);
  expect(input).toBe('');
  expect(files).toEqual([
    {
      kind: 'text',
      mediaType: 'text/csv',
      bytes: 8,
      source: { from: 'file', id: fileId },
      name: 'Q3 _report_.csv',
      at: 0,
    },
  ]);
  expect(media.get('mine', '')).toBeUndefined();
  const picture = makeWorld({ filename: 'scan', body: fixtureFile('mill.jpg') });
  expect((await picture.take([{ type: 'file', fileId }])).files).toMatchObject([{ kind: 'image', width: 48 }]);
});

test("another tenant's file is not found", async () => {
  const { refusal } = makeWorld({ filename: 'a.csv', body: Buffer.from('a') });
  expect(await refusal({ type: 'file', fileId }, 'other')).toMatchObject({ code: 'not_found' });
});

test('files that are too many bytes together are refused', async () => {
  const { take } = makeWorld({ filename: 'a.png', body: fixtureFile('mill.png'), bytes: maxInputFileBytes });
  const part = { type: 'image', fileId } as const;
  await expect(take([part, part, part])).rejects.toMatchObject({ code: 'payload_too_large' });
  expect((await take([part, part])).files).toHaveLength(2);
});
