import { defined } from '../../base/collections.ts';
import {
  isPlainText,
  pagesOf,
  pixelSizeOf,
  plainMediaType,
  readKindOf,
  readTypes,
  sniffed,
} from '../../base/media-type.ts';
import { maxInputFileBytes, maxTextFileBytes, type InputFile } from '../../contract/input-parts.ts';

/** The beginning of a file, or all of it. */
export interface FileHead {
  readonly head: Uint8Array;
  /** Of the whole file. */
  readonly totalBytes: number;
  /** What its giver says it is. Undefined: nothing is said, or only that it is bytes. */
  readonly declared: string | undefined;
  readonly as: 'image' | 'file';
}

/** Bytes that have to be looked at: every text as a whole, of all others what their sizes stand in. */
export const headBytes = maxTextFileBytes + 1;

/** What the bytes are, with what estimates are made of; or, as a text, why they are not taken. */
export function readHead({
  head,
  totalBytes,
  declared,
  as,
}: FileHead): string | Pick<InputFile, 'kind' | 'mediaType' | 'bytes' | 'width' | 'height' | 'pages'> {
  if (totalBytes === 0) return 'has no bytes';
  if (totalBytes > maxInputFileBytes) return `has ${totalBytes} bytes, and at most ${maxInputFileBytes} are taken`;
  const found = sniffed(head);
  const named = declared === undefined ? undefined : plainMediaType(declared);
  const mediaType = named ?? found?.mediaType ?? 'text/plain';
  const kind = readKindOf(mediaType);
  if (!kind) return `is ${mediaType}, which no model is given: what is read are ${readTypes}`;
  if (as === 'image' && kind !== 'image') return `is ${mediaType}, and not an image that is read: give it as a file`;
  if (kind === 'text' && !found) return textProblem(head, totalBytes) ?? { kind, mediaType, bytes: totalBytes };
  if (found?.mediaType !== mediaType)
    return `is said to be ${mediaType}, and its bytes are ${found?.mediaType ?? 'something else'}`;
  const pages = kind === 'pdf' && head.length === totalBytes ? pagesOf(head) : undefined;
  return defined({ kind, mediaType, bytes: totalBytes, ...(kind === 'image' && pixelSizeOf(head)), pages });
}

function textProblem(head: Uint8Array, totalBytes: number): string | undefined {
  if (totalBytes > maxTextFileBytes)
    return `is a text of ${totalBytes} bytes, and at most ${maxTextFileBytes} fit into a prompt: give the agent a tool that reads it`;
  return isPlainText(head) ? undefined : 'is said to be text, and its bytes are not text in UTF-8';
}
