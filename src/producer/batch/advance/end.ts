import { inLanes } from '../../../shared/base/collections.ts';
import { asRunError } from '../../../shared/base/errors.ts';
import { isCsv, type BatchProblem, type BatchRecord } from '../../../shared/contract/batch-record.ts';
import { fileTtlS, maxPartBytes, type FilePart } from '../../../shared/contract/files.ts';
import type { FileInfo } from '../../../shared/state/files/files.ts';
import { outputHeader } from '../lines/output-line.ts';
import { isInputGone } from './input.ts';
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
    await closeLines(own);
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
          // Lines that were never read, because the file is gone, have no answer either.
          failed: record.total - record.completed,
          errors: withLoss(record, made.lost),
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
  try {
    for await (const group of inGroups(own, () => true)) {
      const answers = await ports.store.begin(stay, group);
      if (answers === 'lost' || answers === 'not_now') throw own.lose();
      await taking.refused(group.flatMap((line, i) => (answers[i] === 'open' ? [{ ...line, error }] : [])));
    }
  } catch (thrown) {
    // What those lines would be called is gone with their file.
    if (!isInputGone(thrown)) throw thrown;
  }
}

interface MadeFiles {
  readonly output: FileInfo | undefined;
  readonly errors: FileInfo | undefined;
  /** Of the output up to its first line without an answer. */
  readonly answerBytes: number;
  /** Answers of earlier rounds that are in no file any more. */
  readonly lost: BatchProblem | undefined;
}

function withLoss({ errors }: BatchRecord, lost: BatchProblem | undefined): BatchProblem[] | undefined {
  return lost ? [...(errors ?? []), lost] : errors;
}

async function makeFiles(own: OwnBatch, record: BatchRecord): Promise<MadeFiles | { readonly problem: BatchProblem }> {
  try {
    const { store } = own.ports;
    const { id, request } = record;
    const [answered, failed] = [await store.parts(id, 'output'), await store.parts(id, 'errors')];
    const { parts: before, lost } = await partsBefore(own, record, answered.length + failed.length > 0);
    const answers = [...before, ...answered];
    const isOurs = request.endpoint === '/v1/runs';
    const output = await makeFile(own, record, 'output', isOurs ? [...answers, ...failed] : answers);
    const errors = isOurs ? undefined : await makeFile(own, record, 'error', failed);
    return { output, errors, answerBytes: answers.reduce((sum, { bytes }) => sum + bytes, 0), lost };
  } catch (thrown) {
    const { code, message } = asRunError(thrown);
    if (code !== 'payload_too_large') throw thrown;
    return { problem: { code, message } };
  }
}

/** What comes before the answers of this round: those of the rounds before a batch that had ended was redriven, or the header. */
async function partsBefore(own: OwnBatch, record: BatchRecord, hasLines: boolean) {
  const { baseFileId, outputId } = record;
  const earlier = baseFileId === undefined || baseFileId === '' ? [] : await copyAnswers(own, record, baseFileId);
  if (earlier !== 'gone' && earlier.length > 0) return { parts: earlier, lost: undefined };
  const lost =
    earlier === 'gone'
      ? { code: 'not_found', message: `the answers that were in the output ${baseFileId} are gone with it` }
      : undefined;
  const header = hasLines ? outputHeader(await own.input.sourceOrDraft()) : undefined;
  const parts = header === undefined ? [] : [await own.ports.files.writePart(outputId, Buffer.from(header))];
  return { parts, lost };
}

async function copyAnswers(own: OwnBatch, { tenant, answerBytes, outputId }: BatchRecord, baseFileId: string) {
  const { files } = own.ports;
  const parts: FilePart[] = [];
  try {
    for await (const bytes of files.read(tenant, baseFileId, 0, answerBytes))
      for (let at = 0; at < bytes.length; at += maxPartBytes)
        parts.push(await files.writePart(outputId, bytes.subarray(at, at + maxPartBytes)));
    return parts;
  } catch (thrown) {
    // Its tenant deleted it after it had the failed lines run again.
    if (asRunError(thrown).code !== 'not_found') throw thrown;
    return 'gone' as const;
  }
}

/** None of no bytes. */
async function makeFile(
  own: OwnBatch,
  record: BatchRecord,
  kind: 'output' | 'error',
  parts: readonly FilePart[],
): Promise<FileInfo | undefined> {
  if (parts.length === 0) return undefined;
  const { id, tenant, request, outputId, errorId } = record;
  const [ending, mediaType] = isCsv(record) ? ['csv', 'text/csv'] : ['jsonl', 'application/jsonl'];
  const draft = {
    filename: `${id}_${kind}.${ending}`,
    purpose: 'batch_output',
    mediaType,
    expiresAfterS: request.output_expires_after?.seconds,
  } as const;
  return await own.ports.files.finish(tenant, kind === 'output' ? outputId : errorId, draft, parts);
}
