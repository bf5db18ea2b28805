import { z } from 'zod';
import { RunError } from '../../base/errors.ts';
import { jsonOr, jsonText } from '../../base/json.ts';
import { type DecisionRecord, decisionRecord } from '../decisions.ts';
import { isDelta } from '../event.ts';
import { type JournalEntry, journalEntry } from '../journal/journal.ts';
import { legibleRecord } from '../run-record.ts';
import type { RunRecord } from '../run.ts';
import { changedLabels } from './labels.ts';
import { lineKinds } from './line-kinds.ts';
import { withAnswerEverywhere } from './repeated-answer.ts';
import { childView } from './run-steps.ts';

/** Version 2 has each answer as often as the run has. */
const archivedRunVersions = [2, 3] as const;
const archivedRunVersion = 3;

/** A digest of an agent's definition, under which the archive keeps it. */
export const definitionDigest = z.string().regex(/^[0-9a-f]{16,64}$/, 'must be hexadecimal digits');

/** An event as it was written; a later version may have written types and fields that this one does not know. */
const keptEvent = z.looseObject({ type: z.string(), sequenceNumber: z.int().min(1), timestamp: z.string() });
type KeptEvent = z.infer<typeof keptEvent>;

/** What is known of an archived run beside what it wrote itself. */
const aboutRun = z.object({
  v: z.literal(archivedRunVersions),
  runId: z.string(),
  tenant: z.string(),
  /** Of the agent that it began with. */
  definition: definitionDigest.optional(),
  children: z.array(childView).readonly(),
  /** When the first token of each step arrived, by the number of the step: the delta itself is not kept. */
  firstTokens: z.record(z.string(), z.string()),
  /** See there. */
  changedLabels: changedLabels.optional(),
  /** Parts were too long, or were gone when it was written. */
  truncated: z.literal(true).optional(),
});
export type AboutRun = Omit<z.infer<typeof aboutRun>, 'v'>;

/**
 * What the archive keeps of a run that has ended: what it was asked, and everything that it wrote, masked, so that whatever is
 * shown of a run that works can be shown of this one in the same way.
 */
export interface ArchivedRun extends AboutRun {
  readonly record: RunRecord;
  /** The results of secret tools have no content. */
  readonly journal: readonly JournalEntry[];
  /** Without text deltas. */
  readonly events: readonly KeptEvent[];
  /** Of a run that was redriven: those from before, earlier ends among them. `events` has one end, the last. */
  readonly earlier: readonly KeptEvent[];
  readonly decisions: readonly DecisionRecord[];
}

/** All events of an archived run up to a number: those that a redrive took out of its log. */
export function earlierIn({ earlier, events }: ArchivedRun, upTo: number): ArchivedRun['events'] {
  return [...earlier, ...events].filter(({ sequenceNumber }) => sequenceNumber <= upTo);
}

/** May this be the first sign of an answer? */
export function isFirstToken(type: string): boolean {
  return isDelta(type) || type === 'agent.thinking' || type === 'tool.call.start';
}

/** The text of an archived run. `lines` are all but the first, each with a newline at its end, mostly as `withAnswerOnce` has them. */
export function archivedText(about: AboutRun, lines: string): string {
  return `${lineKinds.about}${jsonText({ v: archivedRunVersion, ...about })}\n${lines}`;
}

/** Whose run is this the text of? Undefined for what is none. */
export function tenantOfArchived(text: string): string | undefined {
  const about = z.object({ tenant: z.string() }).safeParse(jsonOr(text.slice(1, text.indexOf('\n'))));
  return about.data?.tenant;
}

/**
 * What the archive has of a run, as far as this version can read it: lines that are damaged, or that a later version wrote, are left
 * out. Throws `run_state_version_unsupported` and `run_state_malformed`.
 */
export function archivedFrom(text: string, runId: string): ArchivedRun {
  const lines = Map.groupBy(withAnswerEverywhere(text).split('\n'), (line) => line.charAt(0));
  const bodies = (kind: keyof typeof lineKinds) => (lines.get(lineKinds[kind]) ?? []).map((line) => line.slice(1));
  const all = <T>(kind: keyof typeof lineKinds, schema: z.ZodType<T>): T[] =>
    bodies(kind).flatMap((body) => {
      const parsed = schema.safeParse(jsonOr(body));
      return parsed.success ? [parsed.data] : [];
    });
  const [found = ''] = bodies('about');
  const about = aboutRun.safeParse(jsonOr(found));
  if (!about.success) {
    const version = z.object({ v: z.int() }).safeParse(jsonOr(found)).data?.v;
    if (version !== undefined && !archivedRunVersions.some((known) => known === version))
      throw new RunError('run_state_version_unsupported', `run ${runId} was archived in another version`);
    throw new RunError('run_state_malformed', `what the archive has of run ${runId} cannot be read`, {
      cause: about.error,
    });
  }
  const { v: _, ...known } = about.data;
  return {
    ...known,
    record: legibleRecord(hashOf(bodies('field'))),
    journal: all('entry', journalEntry),
    events: all('event', keptEvent),
    earlier: all('earlier', keptEvent),
    decisions: all('decision', decisionRecord),
  };
}

function hashOf(fields: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    fields.map((field) => {
      const at = field.indexOf(' ');
      return [field.slice(0, at), field.slice(at + 1)];
    }),
  );
}
