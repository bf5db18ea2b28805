import { z } from 'zod';
import { runRequest, runView } from '../run.ts';
import { runSteps, shownMessage } from './run-steps.ts';

export const runExportKind = 'millrace.run-export';
export const runExportVersion = 1;
/** Runs in one document, with all that work for it. */
export const maxExportedRuns = 200;
/** Size of the largest document that is read again. */
export const maxExportBytes = 64 * 1_048_576;

const exported = z.object({
  kind: z.literal(runExportKind),
  v: z.literal(runExportVersion),
  run: runView,
  request: runRequest,
  /** The definition of the agent that it ran with: everything that is data. Null: it is not known. */
  agent: z.record(z.string(), z.unknown()).nullable(),
  /** The conversation before the first answer, its system text first where that is known. */
  initial: z.array(shownMessage),
  steps: runSteps,
  /** Without text deltas. */
  events: z.array(z.looseObject({ type: z.string(), sequenceNumber: z.int().min(1), timestamp: z.string() })),
  /** Some children are left out: there are too many, or they are past their time. */
  truncated: z.literal(true).optional(),
});

/** A run as one document: what `millrace export` writes, and `millrace replay` reads. */
export type RunExport = z.infer<typeof exported> & {
  /** The runs that worked for it. */
  readonly children: RunExport[];
};
const time = z.iso.datetime({ offset: true, error: 'must be a time like 2026-11-21T09:00:00Z' });
const mayBeTime = time.optional();
/** A file may have been changed by hand: its times are checked, too, where it is read. */
export const runExport: z.ZodType<RunExport> = exported.extend({
  run: runView.extend({ createdAt: time, startedAt: mayBeTime, endedAt: mayBeTime, deadlineAt: mayBeTime }),
  steps: runSteps.extend({ queuedAt: time, startedAt: mayBeTime, endedAt: mayBeTime }),
  events: z.array(exported.shape.events.element.extend({ timestamp: time })),
  get children() {
    return z.array(runExport);
  },
});

/** The same for the description of the API, which names no schema that contains itself. */
export const runExportAnswer = exported.extend({
  children: z
    .array(z.looseObject({ kind: z.literal(runExportKind), v: z.literal(runExportVersion) }))
    .describe('The runs that worked for it, each as a document of this form.'),
});
