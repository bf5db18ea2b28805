import { z } from 'zod';

/** What a file is for. `batch_output` files are made by us. */
export const filePurpose = z.enum(['batch', 'batch_output', 'user_data', 'vision', 'assistants']);
export type FilePurpose = z.infer<typeof filePurpose>;

/** `file-` and a ULID. */
export const fileId = z.string().regex(/^file-[0-9A-HJKMNP-TV-Z]{26}$/, 'is not a file id');

/** The largest file that is taken: 200 MB. */
export const maxFileBytes = 200 * 1024 * 1024;
/** The largest file where files are kept in Redis itself. */
export const maxFileBytesInRedis = 16 * 1024 * 1024;

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
});
export type FileView = Readonly<z.infer<typeof fileView>>;
