import type { InputFile } from '../../contract/input-parts.ts';
import { storedCancel, type CancelRequest } from '../../contract/control.ts';
import { waitsForPeople } from '../../contract/decisions.ts';
import type { LeakReport } from '../../contract/agent/lateral-leak.ts';
import { jsonText } from '../../base/json.ts';
import { forgetOpen, lookSoon } from './open-runs.ts';
import {
  loadScript,
  type RunKeySpace,
  archiveWaitS,
  recordTtlS,
  runOnRun,
  auditedEvent,
  auditKeyFor,
  noteLogged,
  publishLifecycle,
  eventTargets,
  type OutgoingEvent,
} from '../script.ts';
import { redisError, named } from '../errors.ts';
import { type RunRecord, recordToHash, isTerminalStatus, type Activity, type RunStatus } from '../../contract/run.ts';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { RunError, type ErrorInfo } from '../../base/errors.ts';
import type { PendingItem, RunResultBody } from '../../contract/event.ts';
import type { Attempt, JournalEntry, JournalEntryOf } from '../../contract/journal/journal.ts';
import type { FlowLabel } from '../../contract/message.ts';
import type { RunUsage } from '../../contract/money.ts';
import type { UnfinishedWork } from '../../contract/unfinished.ts';

const script = loadScript(import.meta.url, './commit.lua');

/** The right to write to a run: a fresh nonce per processor call. */
export interface Ownership {
  readonly runId: string;
  readonly owner: string;
  /** Whose run it is. Without it no event can be written that is audited. */
  readonly tenant?: string | undefined;
}

/** Fields of the record that a commit may change. */
export interface RecordPatch {
  readonly status?: RunStatus;
  readonly steps?: number;
  readonly toolCalls?: number;
  readonly toolErrors?: number;
  readonly usage?: RunUsage;
  readonly costMicrocents?: number;
  readonly childCostMicrocents?: number;
  readonly workedMs?: number;
  readonly attempts?: readonly Attempt[];
  readonly pending?: readonly PendingItem[];
  readonly result?: RunResultBody;
  readonly error?: ErrorInfo;
  readonly flow?: FlowLabel;
  readonly unfinished?: UnfinishedWork | undefined;
  /** See the record. */
  readonly inboxRead?: readonly string[];
  readonly startedAt?: string;
  readonly endedAt?: string;
  readonly deadlineAt?: string;
  readonly files?: readonly InputFile[];
  readonly isCancelling?: true;
  /** Removes a cancel request that did not end the run. */
  readonly cancel?: '';
  readonly activity?: Activity;
  readonly leaks?: LeakReport;
}

/**
 * One durable write: new journal entries, new events and changed fields, all or nothing. `release` gives the ownership
 * up in the same step: `handed_over` (another processor call continues), `suspended`, or `terminal` (sets the
 * retention; nothing can be written afterwards). A release, and an entry of a call that finished here, set the crashes to 0.
 */
export interface Commit {
  /** Unique per commit of an owner. A repeat of the same id changes nothing and answers like the first. */
  readonly op: string;
  /** The last number given so far. The first event of this commit gets the next one. */
  readonly seq: number;
  readonly entries: readonly JournalEntry[];
  readonly events: readonly OutgoingEvent[];
  readonly patch?: RecordPatch;
  readonly release?: 'handed_over' | 'suspended' | 'terminal' | undefined;
  /** With a terminal release: the journal is deleted, because its content is kept elsewhere; with an archive, once it is there. */
  readonly dropsJournal?: boolean;
  /** With a terminal release: nothing of the run is kept for long. */
  readonly store?: false | undefined;
}

/** `fenced`: another processor call owns the run; nothing was written, and nothing more may be. */
export type CommitReply =
  | { readonly kind: 'ok'; readonly seq: number; readonly cancel?: CancelRequest | undefined }
  | { readonly kind: 'fenced' };

type Space = RunKeySpace & { readonly clock: Clock; readonly log: Log };

/**
 * `commit.lua` as a function. Throws `queue_unavailable`; it is then unknown whether the commit took effect, and only
 * the very same commit may be sent again: the next claim finds out.
 */
export async function commitRun(space: Space, ownership: Ownership, commit: Commit): Promise<CommitReply> {
  const { runId, owner, tenant } = ownership;
  const fields = changedFields(space, commit);
  const texts = commit.events.map((event) => auditedEvent(event, tenant));
  // What ends its wait may have come already, and the worker that knows of it may die.
  if (commit.patch?.status === 'suspended') await named(`check of run ${runId}`, lookSoon(space, runId));
  await named(`listing of run ${runId}`, listAsking(space, runId, commit));
  const args = [
    owner,
    commit.op,
    commit.seq,
    endingOf(commit),
    recordTtlS(space, false, commit.store),
    recordTtlS(space, true, commit.store),
    space.eventLogTtlS,
    archiveWaitS(space, commit.store),
    ...eventTargets(space, runId),
    fields.length,
    commit.entries.length,
    ...fields,
    ...commit.entries.map((entry) => jsonText(entry)),
    ...texts,
  ];
  const auditKey = await auditKeyFor(space, ownership, commit.events);
  const reply = (await runOnRun(space, runId, script, args, { doing: `commit of run ${runId}`, auditKey })) as
    | readonly [0]
    | readonly [1, number, string];

  if (reply[0] === 0) return { kind: 'fenced' };
  const [, seq, cancel] = reply;
  noteWritten(space, { runId, ...commit }, texts);
  if (commit.patch?.cancel === '' && cancel === '') forgetCancel(space, runId);
  if (commit.release === 'terminal') forget(space, runId);
  else publishLifecycle(space, runId, commit.events);
  return { kind: 'ok', seq, cancel: cancel === '' ? undefined : storedCancel(cancel) };
}

/** Keeps the events for the archive, should this process archive the run. */
function noteWritten(space: Space, commit: Commit & { readonly runId: string }, texts: readonly string[]): void {
  const { runId, patch, store } = commit;
  noteLogged(space, commit, texts);
  if (patch?.endedAt === undefined) return;
  if (archiveWaitS(space, store) > 0) space.logTails?.end(runId, patch.endedAt);
  else space.logTails?.forget([runId]);
}

/**
 * Lists a run that is about to wait for people, before it does, so that none is missing there. A reader of the list removes
 * runs that no longer wait.
 */
async function listAsking({ redis, keys }: Space, runId: string, { patch }: Commit): Promise<void> {
  const asked = patch?.status === 'suspended' ? patch.pending?.find(waitsForPeople) : undefined;
  const tenant = asked && (await redis.hget(keys.run(runId), 'tenant'));
  if (!tenant) return;
  const atMs = Date.parse(asked.requestedAt);
  await Promise.all([redis.sadd(keys.tenantsAsking, tenant), redis.zadd(keys.asking(tenant), atMs, runId)]);
}

function endingOf({ release, dropsJournal, patch }: Commit): 0 | 1 | 2 | 3 {
  if (release === 'terminal') return dropsJournal ? 3 : 1;
  return patch?.cancel === '' ? 2 : 0;
}

/** Field and value strings of the record in one flat list. */
function changedFields({ clock }: Space, commit: Commit): string[] {
  const { patch, release } = commit;
  const { cancel: _, ...changes } = patch ?? {};
  const fields = { ...recordToHash(changes as Partial<RunRecord>), updatedAt: new Date(clock.now()).toISOString() };
  const cleared = clearsCrashes(commit) ? ['crashes', '0'] : [];
  const released = release ? ['owner', '', 'held', '0', 'activity', 'idle'] : [];
  // A run that holds money needs a worker to end, also after a crash.
  const holds = commit.entries.some(({ t }) => t === 'closing_held') ? ['holdsMoney', '1'] : [];
  return [...Object.entries(fields).flat(), ...cleared, ...released, ...holds];
}

/** Not awaited either: a worker that polls the set finds no flag in the record. */
function forgetCancel({ redis, keys, log }: Space, runId: string): void {
  redis.srem(keys.cancels, runId).catch((error: unknown) => {
    const err = redisError(error, `forget of the cancel of run ${runId}`);
    log.warn({ err, runId }, 'answered cancel still listed');
  });
}

/**
 * Takes an ended run out of the sets across runs. Not awaited: the commit has happened, and the reconciler removes what a crash
 * leaves there.
 */
function forget(space: Space, runId: string): void {
  const failed = (error: unknown) =>
    space.log.warn({ err: redisError(error, `forget of run ${runId}`), runId }, 'ended run still listed as open');
  forgetOpen(space, runId).catch(failed);
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
