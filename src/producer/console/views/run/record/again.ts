import { maxMetadataKeys } from '../../../../../shared/contract/plain/metadata.ts';
import type { InputFile } from '../../../../../shared/contract/input-parts.ts';
import type { RunRequest, RunRequestInput } from '../../../../../shared/contract/run.ts';

/** A part of an input, as a request has it. */
export type Part = Exclude<RunRequestInput['input'], string>[number];
/** The bytes of a file that came with a request, as a `data:` URL. */
export type Bytes = (handle: string, mediaType: string | undefined) => Promise<string>;

/** The key of metadata that says which run a request was asked by before. */
export const rerunKey = 'rerun_of';

/** The request with a note of the run that it repeats, in place of an older one. One that has no room for it stays as it is. */
export function rerunOf(runId: string, request: RunRequestInput): RunRequestInput {
  const metadata = { ...request.metadata, [rerunKey]: runId };
  return Object.keys(metadata).length > maxMetadataKeys ? request : { ...request, metadata };
}

/**
 * What asks for the same work once more. Left out is what would make it another thing than a new run: the execution id, whose run
 * it would attach to, the batch that has counted it, and the chat and the API that it came through.
 */
export async function againOf(request: RunRequest, bytesOf: Bytes): Promise<RunRequestInput> {
  const [rest, files] = ofANewRun(request);
  if (files.length === 0) return rest;
  return { ...rest, input: await partsOf(request.input, files, bytesOf) };
}

/** The same without bytes, to be read and copied: a file that came with the request has a note in its place. */
export function shownAgain(request: RunRequest): RunRequestInput {
  const [rest, files] = ofANewRun(request);
  if (files.length === 0) return rest;
  return { ...rest, input: split(request.input, files, ({ name }) => ({ type: 'text', text: `[put ${name} here]` })) };
}

/** What a producer adds where a request says nothing else, unless its operator has set another time. */
const defaultQueueTtlMs = 604_800_000;

function ofANewRun(request: RunRequest): readonly [Omit<RunRequest, 'files'>, readonly InputFile[]] {
  const { files = [], executionId: _, batch: _batch, chat: _chat, wire: _wire, delayMs: _delay, ...rest } = request;
  const { queueTtlMs, ...others } = rest;
  return [queueTtlMs === defaultQueueTtlMs ? others : rest, files];
}

async function partsOf(input: string, files: readonly InputFile[], bytesOf: Bytes): Promise<Part[]> {
  const urls = new Map<InputFile, string>();
  for (const file of files) {
    if (file.source.from === 'media') urls.set(file, await bytesOf(file.source.handle, file.mediaType));
  }
  return split(input, files, (file) => ({ type: 'text', text: urls.get(file) ?? '' }), urls);
}

/** Each file where it stood in the text, which is cut there. */
function split(
  input: string,
  files: readonly InputFile[],
  unsent: (file: InputFile) => Part,
  urls: ReadonlyMap<InputFile, string> = new Map(),
): Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const file of [...files].sort((a, b) => a.at - b.at)) {
    addText(parts, input.slice(from, file.at));
    parts.push(filePart(file, urls.get(file)) ?? unsent(file));
    from = file.at;
  }
  addText(parts, input.slice(from));
  return parts;
}

function addText(parts: Part[], text: string): void {
  const trimmed = text.replace(/^\n\n/, '');
  if (trimmed !== '') parts.push({ type: 'text', text: trimmed });
}

function filePart({ kind, source, name, detail }: InputFile, url: string | undefined): Part | undefined {
  const shape = kind === 'image' ? ({ type: 'image', name, detail } as const) : ({ type: 'file', name } as const);
  switch (source.from) {
    case 'file':
      return { ...shape, fileId: source.id };
    case 'url':
      return { ...shape, url: source.url };
    case 'media':
      return url === undefined ? undefined : { ...shape, url };
    default:
      return undefined;
  }
}
