import type { Multipart, MultipartFile } from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { RunError } from '../../shared/base/errors.ts';
import { maxFileBytes } from '../../shared/contract/files.ts';

/** What a form has beside its file, and how the whole may be larger than the file. */
const maxFields = 16;
const maxFieldBytes = 1_024;
const maxFormOverhead = 64 * 1_024;

/** A form with one file, whose bytes are read as they come; the fields are complete after the last of them. */
export interface Upload {
  readonly filename: string;
  readonly mediaType: string;
  /** Throws `payload_too_large`, and `validation` for a form that is cut off, is malformed, or has another file. */
  readonly bytes: AsyncIterable<Uint8Array>;
  readonly fields: ReadonlyMap<string, string>;
}

/**
 * Begins to read a form with the file `file`. Throws `validation` when it has none, `unsupported_media_type` for what is no form,
 * and `payload_too_large` before anything is read when its length says so.
 */
export async function openUpload(request: FastifyRequest): Promise<Upload> {
  const form = formOf(request);
  const fields = new Map<string, string>();
  for (;;) {
    const part = await nextPart(form);
    if (!part) throw problem('file', 'is missing: send the bytes as a part with a filename');
    if (part.type === 'field') addField(part, fields);
    else return uploadOf(part, fields, form, request);
  }
}

function uploadOf(part: MultipartFile, fields: Map<string, string>, form: Form, request: FastifyRequest): Upload {
  if (part.fieldname !== 'file') throw problem(part.fieldname, 'is a file that this route does not take: name it file');
  async function* bytes(): AsyncGenerator<Uint8Array> {
    try {
      // Ended by a reader that stops: the rest of the request is left to what sends the answer.
      for await (const chunk of part.file as AsyncIterable<Uint8Array>) yield chunk;
      for (let next = await nextPart(form); next; next = await nextPart(form)) {
        if (next.type === 'file') throw problem(next.fieldname, 'is a second file: send one');
        addField(next, fields);
      }
    } catch (error) {
      throw formError(error);
    } finally {
      request.raw.unpipe();
    }
  }
  return { filename: part.filename ?? '', mediaType: part.mimetype, bytes: bytes(), fields };
}

type Form = AsyncIterableIterator<Multipart>;

function formOf(request: FastifyRequest): Form {
  if (!request.isMultipart()) throw new RunError('unsupported_media_type', 'send a file as multipart/form-data');
  const announced = Number(request.headers['content-length'] ?? 0);
  if (announced > maxFileBytes + maxFormOverhead)
    throw new RunError('payload_too_large', `the file is over ${maxFileBytes} bytes (200 MB)`);
  return request.parts({
    limits: {
      // The store counts the bytes, and throws; one more file and field show that there are too many.
      fileSize: maxFileBytes + 1,
      files: 2,
      fields: maxFields,
      parts: maxFields + 2,
      fieldSize: maxFieldBytes,
      fieldNameSize: 128,
      headerPairs: 32,
    },
  });
}

async function nextPart(form: Form): Promise<Multipart | undefined> {
  try {
    const step = await form.next();
    return step.done === true ? undefined : step.value;
  } catch (error) {
    throw formError(error);
  }
}

function addField(part: Extract<Multipart, { type: 'field' }>, fields: Map<string, string>): void {
  const { fieldname: name, value } = part;
  if (part.valueTruncated) throw problem(name, `has more than ${maxFieldBytes} bytes`);
  if (typeof value !== 'string') throw problem(name, 'must be text');
  if (fields.has(name)) throw problem(name, 'is there twice');
  fields.set(name, value);
}

/** What the parser throws is about the form. */
function formError(error: unknown): RunError {
  if (error instanceof RunError) return error;
  return new RunError('validation', 'the form is malformed, has too many parts, or was cut off', { cause: error });
}

/** An error about one field of a form. */
export function problem(path: string, message: string): RunError {
  return new RunError('validation', `${path} ${message}`, { details: [{ path, message }] });
}

/** A stream whose first bytes were read: what fails before them gets a status. */
export async function begun(bytes: AsyncIterable<Uint8Array>): Promise<AsyncIterable<Uint8Array>> {
  const iterator = bytes[Symbol.asyncIterator]();
  const first = await iterator.next();
  return (async function* () {
    try {
      for (let step = first; step.done !== true; step = await iterator.next()) yield step.value;
    } finally {
      await iterator.return?.();
    }
  })();
}
