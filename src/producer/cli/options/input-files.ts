import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { RunError } from '../../../shared/base/errors.ts';
import { typeByName } from '../../../shared/base/media-type.ts';
import { maxInputFileBytes, maxInputFiles, type InputPart } from '../../../shared/contract/input-parts.ts';
import type { Millrace } from '../../client/millrace.ts';
import { value } from './command.ts';

/** Files beside the input, in the order in which they are given. */
export const fileOption = value('--file <path or URL>', 'give it this file, too; may be repeated', addFile);

function addFile(given: string, before: readonly string[] = []): readonly string[] {
  return [...before, given];
}

/** The input with its files, which are uploaded first. Throws `validation` for a file that cannot be read. */
export async function inputWith(
  input: string,
  files: readonly string[] | undefined,
  mill: Pick<Millrace, 'files'>,
): Promise<string | InputPart[]> {
  if (files === undefined) return input;
  if (files.length > maxInputFiles)
    throw new RunError('validation', `--file: at most ${maxInputFiles} files go into one run`);
  const local = files.filter((given) => !isUrl(given));
  // Before the first is uploaded: a wrong name must not leave the others behind.
  for (const path of local) await refuseUnreadable(path);
  const parts: InputPart[] = input === '' ? [] : [{ type: 'text', text: input }];
  for (const given of files) parts.push(isUrl(given) ? partOfUrl(given) : await uploaded(given, mill));
  return parts;
}

function isUrl(given: string): boolean {
  return /^https?:\/\//i.test(given);
}

function partOfUrl(url: string): InputPart {
  const isImage = typeByName(URL.canParse(url) ? new URL(url).pathname : '')?.startsWith('image/') ?? false;
  return isImage && !/\.svg$/i.test(url) ? { type: 'image', url } : { type: 'file', url };
}

async function refuseUnreadable(path: string): Promise<void> {
  const found = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw new RunError('validation', `--file: ${path} cannot be read (${cause.code ?? 'unknown'})`, { cause });
  });
  if (!found.isFile()) throw new RunError('validation', `--file: ${path} is not a file`);
  if (found.size > maxInputFileBytes)
    throw new RunError(
      'validation',
      `--file: ${path} has ${found.size} bytes, and at most ${maxInputFileBytes} are taken`,
    );
}

async function uploaded(path: string, { files }: Pick<Millrace, 'files'>): Promise<InputPart> {
  const mediaType = typeByName(path);
  const about = {
    filename: basename(path),
    purpose: 'user_data' as const,
    ...(mediaType !== undefined && { mediaType }),
  };
  const { id } = await files.upload(createReadStream(path), about);
  return { type: 'file', fileId: id };
}
