import { sha256 } from '../../shared/base/ids.ts';
import { assertNever, messageOf, RunError } from '../../shared/base/errors.ts';
import { pagesOf, plainMediaType, sniffed, typeByName } from '../../shared/base/media-type.ts';
import type { Config } from '../../shared/contract/config.ts';
import {
  fileLabel,
  foundOf,
  inputFileTtlS,
  maxInputFileBytes,
  maxInputFilesBytes,
  noteFound,
  type InputFile,
} from '../../shared/contract/input-parts.ts';
import { handleOf } from '../../shared/contract/media.ts';
import type { Message } from '../../shared/contract/message.ts';
import { filesOfRun, type RunRecord } from '../../shared/contract/run.ts';
import { EgressError, type EgressInit, type EgressResponse } from '../../shared/egress/egress-fetch.ts';
import { readHead } from '../../shared/state/inputs/check-bytes.ts';
import { bytesOfFile, hasBytes } from '../../shared/state/inputs/file-bytes.ts';
import { wrappedWhole } from '../guards/sanitise.ts';
import type { Ports } from './ports.ts';
import type { RunWriter } from './writer.ts';

/** What becomes of URLs in inputs. Without a `fetch` they are refused. */
export interface InputUrls {
  readonly mode: Config['INPUT_URLS'];
  readonly fetch?: (url: string, init: EgressInit) => Promise<EgressResponse>;
}

interface Fetching {
  readonly urls: InputUrls;
  readonly ports: Pick<Ports, 'media' | 'clock'>;
  readonly signal: AbortSignal;
}

/**
 * The files of a run's input: those behind URLs fetched, once for the run, and in its record from then on. Answers the error that
 * the run fails with for a file that cannot be had. Throws the reason of the signal.
 */
export async function filesFor(
  record: RunRecord,
  writer: Pick<RunWriter, 'emit' | 'commit'>,
  fetching: Fetching,
): Promise<InputFile[] | RunError | undefined> {
  const known = filesOfRun(record);
  if (!known?.some(isBehindUrl) || fetching.urls.mode === 'pass') return known;
  try {
    const files: InputFile[] = [];
    let together = 0;
    for (const file of known) {
      const fetched = isBehindUrl(file) ? await fetchedFile(file, record.tenant, fetching) : file;
      together += fetched.bytes ?? 0;
      if (together > maxInputFilesBytes)
        throw unavailable(file, `the files of a run have at most ${maxInputFilesBytes} bytes together`, 'too_large');
      files.push(fetched);
      const { name, mediaType = '', bytes = 0, source } = fetched;
      if (fetched !== file && source.from === 'media')
        writer.emit({ type: 'input.file_fetched', name, mediaType, bytes, handle: source.handle });
    }
    await writer.commit({ patch: { files } });
    return files;
  } catch (error) {
    if (error instanceof RunError && error.code === 'input_unavailable') return error;
    throw error;
  }
}

function isBehindUrl({ source }: InputFile): boolean {
  return source.from === 'url';
}

const tries = 3;
const betweenTriesMs = 1_000;
const fetchDeadlineMs = 30_000;
const accept = 'image/png, image/jpeg, image/gif, image/webp, application/pdf, text/*, application/json, */*;q=0.1';

async function fetchedFile(file: InputFile, tenant: string, fetching: Fetching): Promise<InputFile> {
  const { body, headers } = await fetched(file, fetching);
  const declared = declaredType(headers, body, file);
  const as = file.kind === 'image' ? 'image' : 'file';
  const read = readHead({ head: body, totalBytes: body.length, declared, as });
  if (typeof read === 'string') throw unavailable(file, `what is behind its URL ${read}`, 'not_read');
  const pages = read.kind === 'pdf' ? pagesOf(body) : undefined;
  const sha = await fetching.ports.media.put(tenant, body, read.mediaType ?? '', inputFileTtlS);
  const { name, at, detail, trust } = file;
  return { ...read, name, at, detail, trust, pages, source: { from: 'media', handle: handleOf(sha) } };
}

/** Servers often do not know which image they serve; what says nothing is decided by the bytes. */
function declaredType(headers: Headers, body: Uint8Array, { name }: InputFile): string | undefined {
  const said = plainMediaType(headers.get('content-type') ?? '');
  const found = sniffed(body);
  if (said === '' || said.endsWith('/octet-stream')) return found?.mediaType ?? typeByName(name);
  return found && (said.startsWith('image/') || said === 'application/x-pdf') ? found.mediaType : said;
}

async function fetched(file: InputFile, { urls, ports, signal }: Fetching): Promise<EgressResponse> {
  const { source } = file;
  if (urls.mode === 'refuse' || !urls.fetch || source.from !== 'url')
    throw unavailable(
      file,
      'URLs of files are refused here (INPUT_URLS): upload the file, or send its bytes',
      'refused',
    );
  for (let attempt = 1; ; attempt++) {
    const answer = await urls
      .fetch(source.url, { headers: { accept }, maxBytes: maxInputFileBytes, deadlineMs: fetchDeadlineMs, signal })
      .catch((error: unknown) => {
        signal.throwIfAborted();
        if (error instanceof EgressError) return error;
        throw unavailable(file, messageOf(error), 'unreachable');
      });
    const { text, reason, again } = failureOf(answer) ?? {};
    if (!(answer instanceof EgressError) && text === undefined) return answer;
    if (!again || attempt === tries) throw unavailable(file, text ?? '', reason ?? '');
    await ports.clock.sleep(betweenTriesMs * attempt, signal);
  }
}

function failureOf(answer: EgressResponse | EgressError) {
  if (answer instanceof EgressError) {
    const again = answer.reason === 'timeout' || answer.reason === 'unreachable';
    return { text: answer.message, reason: answer.reason, again };
  }
  const { status } = answer;
  if (status === 200) return undefined;
  return { text: `its server answered ${status}`, reason: `status_${status}`, again: status === 429 || status >= 500 };
}

function unavailable({ name }: InputFile, why: string, reason: string): RunError {
  return new RunError('input_unavailable', `file ${name} of the input: ${why}`, { details: { file: name, reason } });
}

/** Whose conversation it is. */
interface Reader {
  readonly tenant: string;
  /** The thread, or the run where there is none: the same text is marked alike in each turn, which keeps prompts cached. */
  readonly conversation: string;
  readonly passesUrls: boolean;
}

export function readerOf(
  { tenant, runId, request }: Pick<RunRecord, 'tenant' | 'runId' | 'request'>,
  { inputUrls }: { readonly inputUrls?: InputUrls },
): Reader {
  return { tenant, conversation: request.thread ?? runId, passesUrls: inputUrls?.mode === 'pass' };
}

/**
 * Looks for the files of a conversation: texts are read, of all others it is noted when they are gone. Files that were looked for
 * are not looked for again. Answers those that are gone.
 */
export async function lookForFiles(
  messages: readonly Message[],
  reader: Reader,
  ports: Pick<Ports, 'media' | 'files'>,
): Promise<readonly InputFile[]> {
  const gone: InputFile[] = [];
  const files = messages.flatMap((message) => (message.role === 'user' ? (message.files ?? []) : []));
  for (const file of new Set(files)) {
    if (foundOf(file)) continue;
    if (file.source.from === 'url') {
      if (!reader.passesUrls) noteFound(file, { kind: 'unread' });
      continue;
    }
    const bytes = file.kind === 'text' ? await bytesOfFile(reader.tenant, file, ports) : undefined;
    const isThere = await hasBytes(reader.tenant, file, ports);
    if (bytes && isThere) {
      const text = bytes
        .toString('utf8')
        .toWellFormed()
        .replace(/^\uFEFF/, '');
      noteFound(file, { kind: 'text', text, shown: shownText(file, text, reader) });
    } else if (!isThere) {
      noteFound(file, { kind: 'gone' });
      gone.push(file);
    }
  }
  return gone;
}

/** A text file as a model reads it. That of a stranger stands between marker lines, without what speaks to the model. */
function shownText(file: InputFile, text: string, { conversation }: Reader): string {
  const label = `[File ${fileLabel(file)}]`;
  const { trust = 'external', name } = file;
  switch (trust) {
    case 'user':
      return `${label}\n${text}\n[End of file ${name}]`;
    case 'external': {
      const nonce = sha256(`${conversation}:file:${name}`).slice(0, 12);
      return `${label}\n${wrappedWhole(text, { trust, toolName: `file:${name}`, nonce })}`;
    }
    default:
      return assertNever(trust);
  }
}
