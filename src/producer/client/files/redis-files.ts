import { z } from 'zod';
import { RunError } from '../../../shared/base/errors.ts';
import { parseAs } from '../../../shared/base/problems.ts';
import {
  filePurpose,
  fileView,
  type FileView,
  maxFileTtlS,
  maxListedFiles,
  minFileTtlS,
  uploadPurpose,
} from '../../../shared/contract/files.ts';
import { type FileDraft, type FileInfo, noSuchFile } from '../../../shared/state/files/files.ts';
import type { TenantClient } from '../client-core.ts';
import type { FileAbout, FileBody, Files, FilesPage, FilesQuery } from './files.ts';

const about = z.strictObject({
  filename: z.string(),
  purpose: uploadPurpose,
  mediaType: z
    .string()
    .max(128)
    .regex(/^[\w.+-]+\/[\w.+-]+(\s*;\s*[\w.+-]+=[\w.+-]+)*$/, 'must be a content type, for instance application/pdf')
    .optional(),
  expiresAfterS: z.int().min(minFileTtlS).max(maxFileTtlS).optional(),
});

const filesQuery = z.strictObject({
  after: z.string().max(64).optional(),
  limit: z.int().min(1).max(maxListedFiles).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  purpose: filePurpose.optional(),
});

/** The files over Redis and the store of `ARTIFACT_STORE`. */
export class RedisFiles implements Files {
  readonly #client: TenantClient;

  constructor(client: TenantClient) {
    this.#client = client;
  }

  async upload(body: FileBody, given: FileAbout | (() => FileAbout)): Promise<FileView> {
    const draftOf = (asked: FileAbout): FileDraft => parseAs(about, asked, 'the file is not valid');
    const draft = typeof given === 'function' ? () => draftOf(given()) : draftOf(given);
    return viewOf(await this.#client.core.files.store.put(this.#client.tenant, draft, chunksOf(body)));
  }

  async get(fileId: string): Promise<FileView> {
    return viewOf(await this.#find(fileId));
  }

  async list(query: FilesQuery = {}): Promise<FilesPage> {
    return await this.#store.list(this.#client.tenant, parseAs(filesQuery, query, 'the query is not valid'));
  }

  async *content(fileId: string): AsyncIterable<Uint8Array> {
    yield* this.#store.read(this.#client.tenant, fileId);
  }

  async remove(fileId: string): Promise<void> {
    if (!(await this.#store.remove(this.#client.tenant, fileId))) throw noSuchFile(fileId);
  }

  get #store() {
    return this.#client.core.files.store;
  }

  async #find(fileId: string): Promise<FileInfo> {
    const found = await this.#store.info(this.#client.tenant, fileId);
    if (!found) throw noSuchFile(fileId);
    return found;
  }
}

/** Without what is for us only. */
function viewOf(info: FileInfo): FileView {
  return fileView.parse(info);
}

async function* chunksOf(body: FileBody): AsyncGenerator<Uint8Array> {
  if (typeof body === 'string') yield Buffer.from(body, 'utf8');
  else if (body instanceof Uint8Array) yield body;
  else if (body instanceof Blob) yield* body.stream() as AsyncIterable<Uint8Array>;
  else
    for await (const chunk of body as AsyncIterable<unknown>) {
      if (!(chunk instanceof Uint8Array))
        throw new RunError('validation', 'the body of a file is a stream of bytes, not of other values');
      yield chunk;
    }
}
