import { fileLabel, type ImageDetail, type InputFile } from '../../../shared/contract/input-parts.ts';
import type { UserMessage } from '../../../shared/contract/message.ts';
import { providerError } from '../errors.ts';
import { filesOfRequest } from '../input-files.ts';
import type { LlmRequest } from '../provider.ts';

/** The files of one request as they go onto the wire: a URL, most often with the bytes in it. Null: they are gone. */
export type WireFiles = ReadonlyMap<InputFile, string | null>;

export const noWireFiles: WireFiles = new Map();

/** Reads the files of a request, right before it is sent. What the map holds goes with the request. */
export async function wireFilesOf(request: LlmRequest, provider: string, signal: AbortSignal): Promise<WireFiles> {
  const files = filesOfRequest(request);
  if (files.length === 0) return noWireFiles;
  const { readFile } = request;
  const read = new Map<InputFile, string | null>();
  for (const file of files) {
    if (file.source.from === 'url') {
      read.set(file, file.source.url);
      continue;
    }
    if (!readFile) throw providerError('bad_request', provider, 'was given files, and no way to read them');
    const bytes = await readFile(file, signal).catch((cause: unknown) => {
      signal.throwIfAborted();
      throw providerError('overloaded', provider, 'was not asked: a file of the request could not be read', { cause });
    });
    read.set(file, bytes ? dataUrl(bytes, file) : null);
  }
  return read;
}

function dataUrl(bytes: Uint8Array, { mediaType = 'application/octet-stream' }: InputFile): string {
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  return `data:${mediaType};base64,${base64}`;
}

/** A piece of a user's message, in no wire format. */
export type UserPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly url: string; readonly detail: ImageDetail | undefined }
  | { readonly type: 'document'; readonly name: string; readonly url: string };

/** The message in pieces, in their order. Undefined: it is a text alone. */
export function userParts({ content, files }: UserMessage, read: WireFiles): readonly UserPart[] | undefined {
  if (!files || files.length === 0) return undefined;
  const parts: UserPart[] = [];
  let from = 0;
  const addText = (to?: number) => {
    const text = content.slice(from, to);
    if (text.trim() !== '') parts.push({ type: 'text', text });
    from = to ?? content.length;
  };
  for (const file of files) {
    addText(file.at);
    parts.push(partOf(file, read.get(file)));
  }
  addText();
  return parts;
}

function partOf(file: InputFile, url: string | null | undefined): UserPart {
  if (url === undefined || url === null)
    return { type: 'text', text: `[File ${fileLabel(file)}: file expired, it cannot be read any more.]` };
  if (file.kind === 'image') return { type: 'image', url, detail: file.detail };
  const name = file.kind !== 'pdf' || /\.pdf$/i.test(file.name) ? file.name : `${file.name}.pdf`;
  return { type: 'document', name, url };
}
