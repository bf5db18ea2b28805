import { z } from 'zod';
import { RunError } from '../../base/errors.ts';
import { isRecord } from '../../base/json.ts';
import { runId } from '../../base/ids.ts';
import { decisionRecord } from '../decisions.ts';
import { isDelta } from '../event.ts';
import { journalEntry } from '../journal/journal.ts';
import { message } from '../message.ts';
import { runRecord } from '../run.ts';
import { childView } from './run-steps.ts';

export const archivedRunVersion = 1;

/** A digest of an agent's definition, under which the archive keeps it. */
export const definitionDigest = z.string().regex(/^[0-9a-f]{16,64}$/, 'must be hexadecimal digits');

/** An event as it was written; a later version may have written types and fields that this one does not know. */
const keptEvent = z.looseObject({ type: z.string(), sequenceNumber: z.int().min(1), timestamp: z.string() });

/**
 * What the archive keeps of a run that has ended: what it was asked, and everything that it wrote, masked, so that whatever is
 * shown of a run that works can be shown of this one in the same way.
 */
export const archivedRun = z.object({
  v: z.literal(archivedRunVersion),
  runId,
  tenant: z.string(),
  record: runRecord,
  /** The results of secret tools have no content. */
  journal: z.array(journalEntry),
  /** Without text deltas. */
  events: z.array(keptEvent),
  /** Of a run that was redriven: those from before, earlier ends among them. `events` has one end, the last. */
  earlier: z.array(keptEvent).optional(),
  /** When the first token of each step arrived, by the number of the step: the delta itself is not kept. */
  firstTokens: z.record(z.string(), z.string()).optional(),
  decisions: z.array(decisionRecord),
  children: z.array(childView),
  initial: z
    .object({
      /** What the model had as its instructions. Absent: it is not known. */
      system: z.string().optional(),
      /** The conversation before the first answer. Absent: what the request says is all of it. */
      messages: z.array(message).optional(),
    })
    .optional(),
  /** Of the agent that it began with. */
  definition: definitionDigest.optional(),
  /** Parts were too long, or were gone when it was written. */
  truncated: z.literal(true).optional(),
});
export type ArchivedRun = z.infer<typeof archivedRun>;

/** All events of an archived run up to a number: those that a redrive took out of its log. */
export function earlierIn({ earlier = [], events }: ArchivedRun, upTo: number): ArchivedRun['events'] {
  return [...earlier, ...events].filter(({ sequenceNumber }) => sequenceNumber <= upTo);
}

/** May this be the first sign of an answer? */
export function isFirstToken(type: string): boolean {
  return isDelta(type) || type === 'agent.thinking' || type === 'tool.call.start';
}

/**
 * What the archive has of a run, as far as this version can read it: entries of a later one are left out. Throws
 * `run_state_version_unsupported` and `run_state_malformed`.
 */
export function archivedFrom(found: unknown, runId: string): ArchivedRun {
  const kept = isRecord(found) ? found : {};
  if (kept['v'] !== archivedRunVersion)
    throw new RunError('run_state_version_unsupported', `run ${runId} was archived in another version`);
  const lines: readonly unknown[] = Array.isArray(kept['journal']) ? kept['journal'] : [];
  const journal = lines.flatMap((line) => journalEntry.safeParse(line).data ?? []);
  const parsed = archivedRun.safeParse({ ...kept, journal });
  if (!parsed.success)
    throw new RunError('run_state_malformed', `what the archive has of run ${runId} cannot be read`, {
      cause: parsed.error,
    });
  return parsed.data;
}
