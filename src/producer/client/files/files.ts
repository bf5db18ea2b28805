import type { FilePurpose, FileView } from '../../../shared/contract/files.ts';

/** What a program gives as the bytes of a file. A text becomes UTF-8. */
export type FileBody = AsyncIterable<Uint8Array> | Blob | Uint8Array | string;

/** What a program says of a file that it uploads. */
export interface FileAbout {
  /** Only the last part of a path is kept. */
  readonly filename: string;
  /** `batch` for lines of a batch, `vision` for images, `user_data` for whatever else. */
  readonly purpose: Exclude<FilePurpose, 'batch_output'>;
  /** The content type that `content` is answered with. Default `application/octet-stream`. */
  readonly mediaType?: string | undefined;
  /** An hour to 30 days, in seconds. Default 7 days. */
  readonly expiresAfterS?: number | undefined;
}

/** Which files of the tenant. */
export interface FilesQuery {
  /** The last id of the page before. */
  readonly after?: string | undefined;
  /** 1 to 10,000, default 100. */
  readonly limit?: number | undefined;
  /** Default `desc`: the newest first. */
  readonly order?: 'asc' | 'desc' | undefined;
  readonly purpose?: FilePurpose | undefined;
}

export interface FilesPage {
  readonly data: readonly FileView[];
  readonly has_more: boolean;
}

/** The files of one tenant: what batches read and write, and what runs are given. A file of another tenant is `not_found`. */
export interface Files {
  /**
   * Streams a body in. Throws `payload_too_large` for more than 200 MB, more than the tenant may have, and for more than 16 MiB
   * where `ARTIFACT_STORE` is Redis; then nothing of it is kept. `about` may be a function, which is called after the last byte.
   * Throws `validation`, `queue_unavailable`, and what the body throws.
   *
   * @example
   * const file = await mill.files.upload(createReadStream('lines.jsonl'), { filename: 'lines.jsonl', purpose: 'batch' });
   */
  upload(body: FileBody, about: FileAbout | (() => FileAbout)): Promise<FileView>;
  /** Throws `not_found`. */
  get(fileId: string): Promise<FileView>;
  /** Throws `validation` for a query that makes no sense. */
  list(query?: FilesQuery): Promise<FilesPage>;
  /**
   * The bytes as a stream. Throws `not_found` at its first step.
   *
   * @example
   * for await (const bytes of mill.files.content(batch.output_file_id)) output.write(bytes);
   */
  content(fileId: string): AsyncIterable<Uint8Array>;
  /** Throws `not_found`. */
  remove(fileId: string): Promise<void>;
}
