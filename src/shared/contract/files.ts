import { z } from 'zod';
import { newRunId } from '../base/ids.ts';

/** What a file is for. `batch_output` files are made by us. */
export const filePurpose = z.enum(['batch', 'batch_output', 'user_data', 'vision', 'assistants']);
export type FilePurpose = z.infer<typeof filePurpose>;

/** What callers may upload: outputs of batches are made here. */
export const uploadPurpose = filePurpose.exclude(['batch_output']);

/** `file-` and a ULID. */
export const fileId = z.string().regex(/^file-[0-9A-HJKMNP-TV-Z]{26}$/, 'is not a file id');

/** The largest file that is taken: 200 MB. */
export const maxFileBytes = 200 * 1024 * 1024;
/** The largest file where files are kept in Redis itself. */
export const maxFileBytesInRedis = 16 * 1024 * 1024;

/** What the files of one tenant may take together where they are kept in Redis itself. */
export const maxTenantFileBytesInRedis = 256 * 1024 * 1024;
/** The largest output of a batch where files are kept in Redis itself. */
export const maxOutputBytesInRedis = 64 * 1024 * 1024;
/** The largest piece of a file's bytes. */
export const maxPartBytes = 1024 * 1024;

/** How long a file is kept, in seconds, unless its maker says otherwise; and the least and the most that one may say. */
export const fileTtlS = 7 * 86_400;
export const minFileTtlS = 3_600;
export const maxFileTtlS = 30 * 86_400;

/** Files that one page of a list has at most. */
export const maxListedFiles = 10_000;

/** The longest name of a file, in characters. */
export const maxFilename = 255;

/** A new file id. Ids sort by the time they were made. */
export function newFileId(nowMs: number): string {
  return `file-${newRunId(nowMs)}`;
}

/** One piece of a file's bytes, as a kept result under the file's id. */
export const filePart = z.object({ name: z.string(), bytes: z.int().min(0) });
export type FilePart = Readonly<z.infer<typeof filePart>>;

/** A file as OpenAI's API shows it. Times are whole seconds since the epoch. */
export const fileView = z.object({
  id: fileId,
  object: z.literal('file'),
  bytes: z.int().min(0),
  created_at: z.int(),
  expires_at: z.int().optional(),
  filename: z.string(),
  purpose: filePurpose,
  status: z.literal('processed'),
  media_type: z.string().describe('The content type of its bytes; a field of ours.'),
});
export type FileView = Readonly<z.infer<typeof fileView>>;
