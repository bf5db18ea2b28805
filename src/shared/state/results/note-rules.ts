import { createHash } from 'node:crypto';
import { z } from 'zod';
import { cleanText } from '../../base/clean-text.ts';
import type { Clock } from '../../base/clock.ts';
import { RunError } from '../../base/errors.ts';
import { sensitivity } from '../../contract/message.ts';
import {
  maxNoteBytes,
  noteRef,
  progressQuery,
  progressRole,
  progressSeq,
  progressTags,
  type ProgressNote,
  type ProgressQuery,
} from '../../contract/progress.ts';
import type { ProgressDraft } from './progress-notes.ts';

const draftForm = z.object({
  runId: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'is not a run id'),
  role: progressRole,
  seq: progressSeq.optional(),
  text: z
    .string()
    .refine((text) => Buffer.byteLength(text) <= maxNoteBytes, `must be at most ${maxNoteBytes} bytes of text`),
  sensitivity,
  tags: progressTags,
});

/** Throws `validation`, with every problem. */
export function checkDraft(draft: ProgressDraft): void {
  const { error } = draftForm.safeParse(draft);
  if (error) throw invalid('the progress note is not valid', error);
}

/** Throws `validation`. */
export function checkQuery(query: ProgressQuery): void {
  const { error } = progressQuery.safeParse(query);
  if (error) throw invalid('the question for progress notes is not valid', error);
}

function invalid(what: string, { issues }: z.ZodError): RunError {
  const problems = issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`);
  return new RunError('validation', `${what}: ${problems.join('; ')}`, { details: problems });
}

/** The note that a draft becomes, and its text as it is kept. */
export function noteOf(
  draft: ProgressDraft,
  seq: number,
  clock: Clock,
): { readonly note: ProgressNote; readonly text: Buffer } {
  const { runId, role, sensitivity: label, tags } = draft;
  const text = Buffer.from(cleanText(draft.text));
  const sha256 = createHash('sha256').update(text).digest('hex');
  const at = new Date(clock.now()).toISOString();
  const ref = noteRef(runId, role, seq);
  return { note: { ref, runId, role, seq, bytes: text.length, sensitivity: label, tags: [...tags], at, sha256 }, text };
}

/** The error of a note that was not written. */
export function writeFailed(why: string, cause?: unknown): RunError {
  return new RunError('progress_write_failed', `the progress note was not written: ${why}`, { cause });
}
