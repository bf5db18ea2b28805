import { z } from 'zod';
import { fileId } from './files.ts';
import { mediaHandle } from './media.ts';

/** Files of one run. */
export const maxInputFiles = 20;
/** Bytes of one file, and of all files of a run together. */
export const maxInputFileBytes = 32 * 1024 * 1024;
export const maxInputFilesBytes = 64 * 1024 * 1024;
/** A text goes into the prompt as a whole: larger ones are for a tool that reads them in pieces. */
export const maxTextFileBytes = 1024 * 1024;
/** How long bytes that came with a request are kept after their last use, in seconds. */
export const inputFileTtlS = 7 * 86_400;
/** Of an input, texts included. */
export const maxInputParts = 64;

const maxUrlChars = 8_192;
/** Of `data`, and of a `data:` URL: base64 of the largest file, and what stands before it. */
const maxDataChars = Math.ceil(maxInputFileBytes / 3) * 4 + 256;

const imageDetail = z.enum(['auto', 'low', 'high']);
export type ImageDetail = z.infer<typeof imageDetail>;

const fileName = z.string().min(1).max(200);

const url = z
  .string()
  .max(maxDataChars)
  .refine((text) => /^(https?:\/\/|data:)/i.test(text), 'must begin with https://, http:// or data:')
  .refine((text) => isDataUrl(text) || text.length <= maxUrlChars, `must have at most ${maxUrlChars} characters`)
  .describe('`https://…`, fetched as `INPUT_URLS` says, or `data:<media type>;base64,…`.');
const data = z.string().min(1).max(maxDataChars).describe('The bytes in base64.');
const mediaType = z
  .string()
  .regex(/^[A-Za-z0-9.+-]{1,64}\/[A-Za-z0-9.+-]{1,64}$/, 'must be a media type, for instance image/png')
  .describe('What the bytes are. Bytes that are something else are refused.');

function from<const S extends z.ZodRawShape>(shape: S) {
  return [
    z.strictObject({ ...shape, url }),
    z.strictObject({ ...shape, data, mediaType }),
    z.strictObject({ ...shape, fileId }),
  ] as const;
}

/**
 * One part of an input: a text, or an image or another file by its URL, by its bytes or by the id of a file that was uploaded. An
 * image may also come as `file`: what it is says what it holds.
 */
export const inputPart = z.union([
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  ...from({ type: z.literal('image'), name: fileName.optional(), detail: imageDetail.optional() }),
  ...from({ type: z.literal('file'), name: fileName.optional() }),
]);
export type InputPart = z.infer<typeof inputPart>;
export type FilePartOfInput = Exclude<InputPart, { type: 'text' }>;

/** `user`: what a file says is the user's word. `external`: a stranger may have written it. */
export const fileTrust = z.enum(['user', 'external']);

/**
 * A file of a run's input as requests, journals and threads keep it: never its bytes.
 *
 * - kind: what a model reads it as. `file`: behind a URL that has not been fetched yet
 * - at: where it stands in the text of its message, as an index into it
 */
export const inputFile = z.object({
  kind: z.enum(['image', 'pdf', 'text', 'file']),
  source: z.discriminatedUnion('from', [
    z.object({ from: z.literal('media'), handle: mediaHandle }),
    z.object({ from: z.literal('file'), id: fileId }),
    z.object({ from: z.literal('url'), url: z.string() }),
  ]),
  name: z.string(),
  /** Whose word it is, as the agent says that was asked with it. Absent: a stranger's. */
  trust: fileTrust.optional(),
  /** Absent: it is not known yet. */
  mediaType: z.string().optional(),
  bytes: z.int().min(0).optional(),
  at: z.int().min(0),
  detail: imageDetail.optional(),
  /** Of an image, in pixels, and of a PDF: for estimates. Absent: its head does not say. */
  width: z.int().min(1).optional(),
  height: z.int().min(1).optional(),
  pages: z.int().min(1).optional(),
});
export type InputFile = Readonly<z.infer<typeof inputFile>>;

export const inputFiles = z.array(inputFile).max(maxInputFiles);

/** Stands between two texts of an input. */
const textSeparator = '\n\n';

export function isDataUrl(text: string): boolean {
  return /^data:/i.test(text);
}

export function hasFiles(input: string | readonly InputPart[]): boolean {
  return typeof input !== 'string' && input.some(({ type }) => type !== 'text');
}

/** The text of an input of parts, and where in it each file stands. */
export function joinedParts(parts: readonly InputPart[]): {
  readonly text: string;
  readonly files: readonly { readonly part: FilePartOfInput; readonly index: number; readonly at: number }[];
} {
  let text = '';
  const files: { part: FilePartOfInput; index: number; at: number }[] = [];
  for (const [index, part] of parts.entries()) {
    if (part.type === 'text') text += text === '' || part.text === '' ? part.text : textSeparator + part.text;
    else files.push({ part, index, at: text.length });
  }
  return { text, files };
}

/** A file as texts name it: `cat.png (image/png, 67 bytes)`. */
export function fileLabel({ name, mediaType, bytes, source }: InputFile): string {
  const facts = [mediaType, bytes === undefined ? undefined : `${bytes} bytes`].filter((fact) => fact !== undefined);
  if (facts.length === 0 && source.from === 'url') facts.push('behind a URL');
  return facts.length === 0 ? name : `${name} (${facts.join(', ')})`;
}

/**
 * What a worker has found out about a file of a conversation. Under a symbol, so that it never gets into JSON: the texts of files
 * stay where they are.
 *
 * - gone: its bytes are not there any more. unread: what is behind its URL is not fetched
 * - text: what a text file says, and that text as a model is shown it
 */
export type FoundFile =
  | { readonly kind: 'gone' | 'unread' }
  | { readonly kind: 'text'; readonly text: string; readonly shown: string };

const found = Symbol('found');
type Noted = InputFile & { [found]?: FoundFile };

export function noteFound(file: InputFile, what: FoundFile): void {
  (file as Noted)[found] = what;
}

/** Undefined: a model is given its bytes, or no worker has looked yet. */
export function foundOf(file: InputFile): FoundFile | undefined {
  return (file as Noted)[found];
}

/** The files of a message that another text, so many characters long, stands in front of. */
export function movedFiles(files: readonly InputFile[], by: number): InputFile[] {
  return files.map((file) => ({ ...file, at: file.at + by }));
}
