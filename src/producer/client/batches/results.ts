import { isCsv, type BatchRecord } from '../../../shared/contract/batch-record.ts';
import { isEndedBatch } from '../../../shared/contract/plain/batch-ends.ts';
import type { BatchWithOutput, WrittenLines } from '../../../shared/state/batch/batches.ts';
import type { FileStore } from '../../../shared/state/files/files.ts';
import { BatchInput } from '../../batch/advance/input.ts';
import { outputHeader } from '../../batch/lines/output-line.ts';
import { firstLines } from '../../batch/lines/raw-lines.ts';
import type { BatchResults } from './batches.ts';

/** The header of an output is within so many bytes, as that of an input is. */
const headBytes = 2 * 1024 * 1024;

type Reading = Pick<FileStore, 'read' | 'readParts'>;

/** The lines of output of a batch as they are by now: of one that has ended those of its files. */
export function resultsOf(found: BatchWithOutput, of: BatchResults, files: Reading): AsyncIterable<Uint8Array> {
  return isEndedBatch(found.record.status) ? inFiles(found.record, of, files) : soFar(found, of, files);
}

async function* inFiles(record: BatchRecord, of: BatchResults, files: Reading): AsyncGenerator<Uint8Array> {
  const { tenant, request, outputFileId, errorFileId, answerBytes } = record;
  const read = (id: string | undefined, from?: number, to?: number) =>
    id === undefined ? [] : files.read(tenant, id, from, to);
  if (request.endpoint !== '/v1/runs') {
    if (of !== 'errors') yield* read(outputFileId);
    if (of !== 'answers') yield* read(errorFileId);
    return;
  }
  if (of !== 'errors') {
    yield* read(outputFileId, 0, of === 'answers' ? answerBytes : undefined);
    return;
  }
  const errors = read(outputFileId, answerBytes);
  yield* isCsv(record) ? withHeader(errors, async () => await headerIn(record, files)) : errors;
}

async function* soFar(
  { record, output, errors }: BatchWithOutput,
  of: BatchResults,
  files: Reading,
): AsyncGenerator<Uint8Array> {
  const { tenant, baseFileId = '', answerBytes, outputId, errorId, request } = record;
  const wanted = async function* () {
    if (of !== 'errors') {
      if (baseFileId !== '') yield* files.read(tenant, baseFileId, 0, answerBytes);
      yield* written(outputId, output, files);
    }
    if (of !== 'answers') yield* written(errorId, errors, files);
  };
  // The answers of before come with theirs.
  const hasHeader = baseFileId !== '' && of !== 'errors';
  const needsHeader = request.endpoint === '/v1/runs' && isCsv(record) && !hasHeader;
  yield* needsHeader ? withHeader(wanted(), async () => await headerIn(record, files)) : wanted();
}

async function* written(id: string, { parts, text }: WrittenLines, files: Reading): AsyncGenerator<Uint8Array> {
  yield* files.readParts(id, parts);
  if (text !== '') yield Buffer.from(text);
}

/** Nothing stays nothing. */
async function* withHeader(
  lines: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  header: () => Promise<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  let isFirst = true;
  for await (const bytes of lines) {
    if (isFirst) yield await header();
    isFirst = false;
    yield bytes;
  }
}

/** That of the output there is, or else as the input has it. */
async function headerIn(record: BatchRecord, files: Reading): Promise<Uint8Array> {
  const { tenant, outputFileId, baseFileId } = record;
  const file = outputFileId || baseFileId;
  if (!file) return Buffer.from(outputHeader(await inputOf(record, files).sourceOrDraft()) ?? '');
  const head: Uint8Array[] = [];
  for await (const bytes of files.read(tenant, file, 0, headBytes)) head.push(bytes);
  const [first] = firstLines(Buffer.concat(head), 'records');
  return Buffer.concat([first?.content ?? Buffer.alloc(0), Buffer.from('\n')]);
}

function inputOf(record: BatchRecord, files: Reading): BatchInput {
  return new BatchInput(record, files, async () => new Map());
}
