import { assertNever } from '../../shared/base/errors.ts';
import type { InputFile } from '../../shared/contract/input-parts.ts';
import type { Message } from '../../shared/contract/message.ts';
import type { InputKind, LlmProvider, LlmRequest } from './provider.ts';

/** The files of a request, as they are sent. */
export function filesOfRequest({ messages }: Pick<LlmRequest, 'messages'>): readonly InputFile[] {
  return messages.flatMap((message: Message) => (message.role === 'user' ? (message.files ?? []) : []));
}

/** What a model has to read for this file. What is behind a URL that was not fetched is a document. */
function kindOf({ kind }: InputFile): InputKind {
  return kind === 'file' ? 'pdf' : kind;
}

/** Why this model cannot be given the request. */
export type InputLack = 'no_image' | 'no_pdf' | 'no_file_urls';

/** What of a request's files a model does not read. Undefined: nothing. */
export function lackOf(
  request: Pick<LlmRequest, 'messages'>,
  { provider, model }: { readonly provider: LlmProvider; readonly model: string },
): InputLack | undefined {
  const files = filesOfRequest(request);
  if (files.length === 0) return undefined;
  const reads = provider.inputOf?.(model) ?? ['text'];
  const missing = files.map(kindOf).find((kind) => !reads.includes(kind));
  if (missing !== undefined && missing !== 'text') return `no_${missing}`;
  const byUrl = files.some(({ kind, source }) => kind !== 'image' && source.from === 'url');
  return byUrl && !provider.capabilities.fileUrls ? 'no_file_urls' : undefined;
}

/** What is to be changed where no model of a run could be given its files. */
export function lackText(lacks: readonly (InputLack | undefined)[], models: readonly string[]): string {
  const kinds = [lacks.includes('no_image') && 'images', lacks.includes('no_pdf') && 'PDFs'].filter(
    (kind) => kind !== false,
  );
  if (kinds.length === 0)
    return 'no provider of this agent fetches files by their URL: set INPUT_URLS=fetch, or upload the file';
  const names = models.join(', ');
  const advice = 'name one that does as its model or in fallbackModels';
  return `no model of this agent reads ${kinds.join(' and ')} (${names}): ${advice}; \`input\` in the providers file says what each reads`;
}

const lowDetailTokens = 85;
const tileTokens = 170;
const tilePixels = 512;
/** A picture of common size. */
const unknownImageTokens = 1_445;
/** Text and picture of a page. */
const pageTokens = 1_500;
/** Of a PDF that does not say how many pages it has. */
const bytesPerPage = 100_000;
const unknownDocumentPages = 10;

/** Tokens of a file in a prompt, rather too many than too few. The text of a text file counts where it stands. */
export function fileTokensOf(file: InputFile): number {
  switch (file.kind) {
    case 'image':
      return imageTokens(file);
    case 'pdf':
      return pageTokens * (file.pages ?? Math.max(1, Math.ceil((file.bytes ?? 0) / bytesPerPage)));
    case 'file':
      return pageTokens * unknownDocumentPages;
    case 'text':
      return 0;
    default:
      return assertNever(file.kind);
  }
}

/** As providers count: scaled to fit 2,048 pixels, then to 768 on the shorter side, and cut into tiles. */
function imageTokens({ detail, width, height }: InputFile): number {
  if (detail === 'low') return lowDetailTokens;
  if (width === undefined || height === undefined) return unknownImageTokens;
  const fits = Math.min(1, 2_048 / Math.max(width, height));
  const scale = fits * Math.min(1, 768 / (Math.min(width, height) * fits));
  const tiles = Math.ceil((width * scale) / tilePixels) * Math.ceil((height * scale) / tilePixels);
  return lowDetailTokens + tileTokens * tiles;
}
