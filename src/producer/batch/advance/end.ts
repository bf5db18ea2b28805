import { inLanes } from '../../../shared/base/collections.ts';
import { asRunError } from '../../../shared/base/errors.ts';
import type { BatchProblem, BatchRecord } from '../../../shared/contract/batch-record.ts';
import { fileTtlS, maxPartBytes, type FilePart } from '../../../shared/contract/files.ts';
import type { FileInfo } from '../../../shared/state/files/files.ts';
import { outputHeader } from '../lines/output-line.ts';
import type { OwnBatch } from './own-batch.ts';
import { inGroups } from './pass.ts';
import { endError } from './taking.ts';

/** How long runs that were stopped may take to end. */
const stopMs = 120_000;
const cancelsAtOnce = 16;

/**
 * Ends a batch: stops what is open, says of every line that has no outcome why, and makes its files of all there is. Repeated after a
 * crash it comes to the same files.
 */
export async function endBatch(own: OwnBatch): Promise<void> {
  if (own.record.ending !== 'completed') {
    await stopRuns(own);
    if (own.record.ending !== 'failed') await closeLines(own);
  }
  await own.taking.flush();
  const record = await own.look();
  const made = await makeFiles(own, record);
  const { ports, stay } = own;
  const now = ports.clock.now();
  const status = 'problem' in made ? 'failed' : (record.ending ?? 'completed');
  const change =
    'problem' in made
      ? { endedAt: now, errors: [made.problem] }
      : {
          endedAt: now,
          outputFileId: made.output?.id,
          errorFileId: made.errors?.id,
          answerBytes: made.answerBytes,
        };
  const ends = 'problem' in made ? [] : [made.output?.expires_at, made.errors?.expires_at];
  const keepUntilS = Math.max(Math.ceil(now / 1_000) + fileTtlS, ...ends.map((at) => at ?? 0));
  if (!(await ports.store.end(stay, record, status, change, keepUntilS))) throw own.lose();
  ports.onStatus({ ...record, ...change, status }, record.status);
  for (const old of [record.baseFileId, record.oldErrorFileId])
    if (old !== undefined && old !== '') await ports.files.remove(record.tenant, old);
}

/** Cancels the runs of open lines, and waits for their ends. */
async function stopRuns(own: OwnBatch): Promise<void> {
  await inLanes(own.outstanding.runs, cancelsAtOnce, async ({ runId }) => {
    await own.client.cancel(runId).catch((error: unknown) => {
      // One that has ended by now is taken as it is.
      if (asRunError(error).code === 'queue_unavailable') throw error;
    });
  });
  const until = performance.now() + stopMs;
  while (own.outstanding.size > 0 && performance.now() < until) await own.news();
}

/** Refuses the lines that are still open, and those that were never begun. */
async function closeLines(own: OwnBatch): Promise<void> {
  const { ports, stay, taking, record } = own;
  const error = endError(record);
  const open = [...(await ports.store.open(stay.id))];
  await inLanes(open, cancelsAtOnce, async ([place, line]) => {
    await taking.refused([{ place, open: line, error }]);
  });
  // Of a file whose lines were never counted none is known.
  if (record.total === 0) return;
  for await (const group of inGroups(own, () => true)) {
    const answers = await ports.store.begin(stay, group);
    if (answers === 'lost' || answers === 'not_now') throw own.lose();
    await taking.refused(group.flatMap((line, i) => (answers[i] === 'open' ? [{ ...line, error }] : [])));
  }
}

interface MadeFiles {
  readonly output: FileInfo | undefined;
  readonly errors: FileInfo | undefined;
  /** Of the output up to its first line without an answer. */
  readonly answerBytes: number;
}

async function makeFiles(own: OwnBatch, record: BatchRecord): Promise<MadeFiles | { readonly problem: BatchProblem }> {
  try {
    const { store } = own.ports;
    const { id, request } = record;
    const [answered, failed] = [await store.parts(id, 'output'), await store.parts(id, 'errors')];
    const before = await partsBefore(own, record, answered.length + failed.length > 0);
    const answers = [...before, ...answered];
    const isOurs = request.endpoint === '/v1/runs';
    const output = await makeFile(own, record, 'output', isOurs ? [...answers, ...failed] : answers);
    const errors = isOurs ? undefined : await makeFile(own, record, 'error', failed);
    return { output, errors, answerBytes: answers.reduce((sum, { bytes }) => sum + bytes, 0) };
  } catch (thrown) {
    const { code, message } = asRunError(thrown);
    if (code !== 'payload_too_large') throw thrown;
    return { problem: { code, message } };
  }
}

/** What comes before the answers of this round: those of the rounds before a batch that had ended was redriven, or the header. */
async function partsBefore(own: OwnBatch, record: BatchRecord, hasLines: boolean): Promise<FilePart[]> {
  const { files } = own.ports;
  const { tenant, baseFileId, answerBytes, outputId } = record;
  const parts: FilePart[] = [];
  if (baseFileId !== undefined && baseFileId !== '') {
    for await (const bytes of files.read(tenant, baseFileId, 0, answerBytes))
      for (let at = 0; at < bytes.length; at += maxPartBytes)
        parts.push(await files.writePart(outputId, bytes.subarray(at, at + maxPartBytes)));
    if (parts.length > 0) return parts;
  }
  const header = hasLines && record.ending !== 'failed' ? outputHeader(await own.input.source()) : undefined;
  return header === undefined ? [] : [await files.writePart(outputId, Buffer.from(header))];
}

/** None of no bytes. */
async function makeFile(
  own: OwnBatch,
  { id, tenant, request, filename, outputId, errorId }: BatchRecord,
  kind: 'output' | 'error',
  parts: readonly FilePart[],
): Promise<FileInfo | undefined> {
  if (parts.length === 0) return undefined;
  const isCsv = request.endpoint === '/v1/runs' && filename.toLowerCase().endsWith('.csv');
  const draft = {
    filename: `${id}_${kind}.${isCsv ? 'csv' : 'jsonl'}`,
    purpose: 'batch_output',
    mediaType: isCsv ? 'text/csv' : 'application/jsonl',
    expiresAfterS: request.output_expires_after?.seconds,
  } as const;
  return await own.ports.files.finish(tenant, kind === 'output' ? outputId : errorId, draft, parts);
}
