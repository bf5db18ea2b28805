import { RunError } from '../../base/errors.ts';
import type { JournalEntry, JournalEntryOf } from '../../contract/journal/journal.ts';
import { isTerminalStatus, type Activity } from '../../contract/run.ts';
import type { Commit, OutgoingEvent } from './run-store.ts';

/** After this a run that was due, and was not resumed, is due again: the worker that got it has probably died. */
export const dueLeaseMs = 30_000;

/** A claim without an event would leave a stale writer's next number free, and `flush` without a fence. */
export function checkClaimEvents(opening: readonly OutgoingEvent[], recovering: readonly OutgoingEvent[]): void {
  if (opening.length > 0 && recovering.length > 0) return;
  throw new RunError('internal', 'a claim needs at least one event, whether it opens or recovers the run');
}

/** A run ends in one way only: a terminal status, the time of the end and the release together, or none of them. */
export function checkCommit(runId: string, { patch, release }: Commit): void {
  const ends = release === 'terminal';
  const status = patch?.status !== undefined && isTerminalStatus(patch.status);
  const at = patch?.endedAt !== undefined;
  if (ends === status && ends === at) return;
  throw new RunError(
    'internal',
    `run ${runId}: a terminal release needs a terminal status and endedAt, and they need it`,
  );
}

/** What ends the wait of a suspended run. */
export interface Resumption {
  /** In words, for `run.resumed`. */
  readonly summary: string;
  /** A person's decision, for the entry `decided` that every resumption adds to the journal. */
  readonly budget?: 'approve' | 'reject' | undefined;
  readonly by?: string | undefined;
}

/** What every end of a wait adds to the journal. */
export function decidedEntry({ budget, by }: Resumption, atMs: number): JournalEntryOf<'decided'> {
  return {
    v: 1,
    t: 'decided',
    at: new Date(atMs).toISOString(),
    by,
    budget,
  };
}

/** Calls of a model, a tool or an orchestration that this process has outlived. */
const finished: ReadonlySet<JournalEntry['t']> = new Set([
  'model_response',
  'attempted',
  'compacted',
  'tool_result',
  'inner_tool_result',
  'orchestration_step',
  'submitted',
  'generated',
]);
/** Results of calls that were never made, or that another worker left behind. */
const notMade: ReadonlySet<JournalEntryOf<'tool_result'>['errorKind']> = new Set([
  'outcome_unknown',
  'unknown_tool',
  'invalid_input',
  'approval_denied',
  'capability_blocked',
  'dataflow_policy_blocked',
  'depth_limit',
]);

/** Does this commit show that the run did not cause its last crashes? */
export function clearsCrashes({ entries, release }: Pick<Commit, 'entries' | 'release'>): boolean {
  return (
    release !== undefined ||
    entries.some((entry) => finished.has(entry.t) && !(entry.t === 'tool_result' && notMade.has(entry.errorKind)))
  );
}

/** The blame of a run for what it did when it lost its worker. In Redis `claim.lua` counts the same. */
export function blameFor(activity: Activity): number {
  return activity === 'watched' ? 2 : activity === 'calls' ? 1 : 0;
}
