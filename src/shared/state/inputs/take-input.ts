import { defined } from '../../base/collections.ts';
import { RunError } from '../../base/errors.ts';
import { PageCounter, plainMediaType, readKindOf, typeByName } from '../../base/media-type.ts';
import {
  isDataUrl,
  joinedParts,
  maxInputFilesBytes,
  type FilePartOfInput,
  type InputFile,
} from '../../contract/input-parts.ts';
import { handleOf } from '../../contract/media.ts';
import type { RunInput, RunRequest } from '../../contract/run.ts';
import type { MediaStore } from '../results/media-store.ts';
import { headBytes, readHead } from './check-bytes.ts';
import type { UploadedFiles } from './uploaded-files.ts';

/** Where the files of inputs are. */
export interface InputStores {
  readonly media: Pick<MediaStore, 'put'>;
  readonly files: UploadedFiles;
}

interface Taking {
  readonly tenant: string;
  readonly stores: InputStores;
  /** How long bytes that came with the request are kept at least, in seconds. */
  readonly keepS: number;
  /** Where the input is in what the caller sent. */
  readonly path: string;
}

/**
 * An input as a run keeps it: its text, and its files by reference. Bytes that came with it are in the media store when this
 * resolves. Throws `validation` that names the part, `payload_too_large`, and `not_found` for a file that the tenant does not have.
 */
export async function takeInput(
  input: RunInput,
  taking: Taking,
): Promise<Pick<RunRequest, 'input'> & { readonly files?: InputFile[] }> {
  if (typeof input === 'string') return { input };
  const { text, files: asked } = joinedParts(input);
  const files: InputFile[] = [];
  let together = 0;
  // One after the other: the bytes of one file are in memory at a time.
  for (const { part, index, at } of asked) {
    const file = await fileOf(part, { ...taking, path: `${taking.path}.${index}` }, files.length + 1);
    together += file.bytes ?? 0;
    if (together > maxInputFilesBytes)
      throw new RunError('payload_too_large', `the files of a run have at most ${maxInputFilesBytes} bytes together`);
    files.push({ ...file, at });
  }
  return files.length === 0 ? { input: text } : { input: text, files };
}

async function fileOf(part: FilePartOfInput, taking: Taking, number: number): Promise<Omit<InputFile, 'at'>> {
  const detail = part.type === 'image' ? part.detail : undefined;
  if ('fileId' in part) return defined({ ...(await uploaded(part, taking)), detail });
  if ('data' in part) return defined({ ...(await inline(part, part.data, part.mediaType, taking, number)), detail });
  if (isDataUrl(part.url)) {
    const [, mediaType, data] = /^data:([^;,]+)(?:;[^;,]+)*;base64,(.*)$/is.exec(part.url) ?? [];
    if (mediaType === undefined || data === undefined) throw wrong(taking, 'url', 'must be data:<media type>;base64,…');
    return defined({ ...(await inline(part, data, mediaType, taking, number)), detail });
  }
  const { url } = part;
  if (!URL.canParse(url)) throw wrong(taking, 'url', 'is no URL');
  const kind = part.type === 'image' ? 'image' : 'file';
  return defined({ kind, source: { from: 'url' as const, url }, name: nameOf(part.name ?? pathName(url)), detail });
}

async function uploaded(
  { type, fileId: id, name }: Extract<FilePartOfInput, { fileId: string }>,
  taking: Taking,
): Promise<Omit<InputFile, 'at'>> {
  const { tenant, stores } = taking;
  const info = await stores.files.info(tenant, id);
  if (!info) throw new RunError('not_found', `there is no file ${id}`, { details: { path: `${taking.path}.fileId` } });
  const chunks: Uint8Array[] = [];
  for await (const chunk of stores.files.read(tenant, id, 0, Math.min(info.bytes, headBytes))) chunks.push(chunk);
  const head = Buffer.concat(chunks);
  // Clients name types by what is installed beside them: where no such file is read, its name says more.
  const said = plainMediaType(info.media_type);
  const declared = readKindOf(said) ? said : (typeByName(info.filename) ?? unsaid(said));
  const read = readHead({ head, totalBytes: info.bytes, declared, as: type });
  if (typeof read === 'string') throw wrong(taking, 'fileId', `file ${id} ${read}`);
  const about = { ...read, source: { from: 'file' as const, id }, name: nameOf(name ?? info.filename) };
  if (read.kind !== 'pdf' || head.length === info.bytes) return about;
  const pages = new PageCounter();
  pages.add(head);
  for await (const chunk of stores.files.read(tenant, id, head.length)) pages.add(chunk);
  return defined({ ...about, pages: pages.end() });
}

function unsaid(mediaType: string): string | undefined {
  return mediaType === 'application/octet-stream' ? undefined : mediaType;
}

async function inline(
  { type, name }: FilePartOfInput,
  base64: string,
  mediaType: string,
  taking: Taking,
  number: number,
): Promise<Omit<InputFile, 'at'>> {
  const bytes = decoded(base64);
  if (!bytes) throw wrong(taking, 'data', 'is not base64');
  const read = readHead({ head: bytes, totalBytes: bytes.length, declared: mediaType, as: type });
  if (typeof read === 'string') throw wrong(taking, 'data', read);
  const { tenant, stores, keepS } = taking;
  const sha256 = await stores.media.put(tenant, bytes, read.mediaType ?? mediaType, keepS);
  const source = { from: 'media' as const, handle: handleOf(sha256) };
  return { ...read, source, name: nameOf(name ?? `${read.kind}-${number}`) };
}

/** Node reads over what is no base64; a caller who sent it must know. */
function decoded(base64: string): Buffer | undefined {
  if (/[^A-Za-z0-9+/_=\s-]/.test(base64)) return undefined;
  const bytes = Buffer.from(base64, 'base64');
  const digits = base64.replaceAll(/[\s=]/g, '').length;
  return bytes.length > 0 && bytes.length === Math.floor((digits * 3) / 4) ? bytes : undefined;
}

const maxNameChars = 100;

/** It is shown to models: one line of harmless signs. */
export function nameOf(name: string): string {
  const plain = name
    .normalize('NFC')
    .replaceAll(/[^\p{L}\p{N}._ ()-]/gu, '_')
    .trim();
  return plain.slice(0, maxNameChars) || 'file';
}

/** The last part of the path of a URL. */
export function pathName(url: string): string {
  const { pathname, hostname } = new URL(url);
  const last = pathname.split('/').findLast((part) => part !== '');
  if (last === undefined) return hostname;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

function wrong({ path }: Taking, field: string, what: string): RunError {
  const problem = { path: `${path}.${field}`, message: what };
  return new RunError('validation', `the request is not valid: ${problem.path}: ${what}`, { details: [problem] });
}
