import { z } from 'zod';
import { storedCancel, type CancelRequest } from '../../contract/control.ts';
import { assertNever, RunError } from '../../base/errors.ts';
import { pairsOf } from '../../base/collections.ts';
import {
  loadScript,
  type RunKeySpace,
  runOnRun,
  scriptEvent,
  publishLifecycle,
  eventTargets,
  type OutgoingEvent,
} from '../script.ts';
import { recordFromHash, type RunStatus, type Activity, type RunRecord } from '../../contract/run.ts';
import type { Clock } from '../../base/clock.ts';
import { type JournalEntry, journalEntry, journalVersion } from '../../contract/journal/journal.ts';
import { storedJson } from '../../base/json.ts';

const script = loadScript(import.meta.url, './claim.lua');

export interface ClaimRequest {
  readonly runId: string;
  readonly owner: string;
  readonly segment: number;
  /** BullMQ's `attemptsStarted` of the job: a lower one than the last claimed is a delivery that was overtaken. */
  readonly jobTry: number;
  readonly worker: string;
  readonly queue: string;
  /** Crashes, and blame, from which on the run is refused here: it belongs to quarantine, or nowhere. */
  readonly crashLimit: number;
  readonly blameLimit: number;
  /** If this run lost that worker, it is not to blame. Lost in its calls, the loss counts among its `excuses`. */
  readonly excusedWorker?: string | undefined;
  /** Digest of its agent's definition, for a run that has none yet. */
  readonly definition?: string | undefined;
  /** What the run does first: `watched` when the process has no other run. */
  readonly activity: Activity;
}

/** What claiming a run answers. Only `claimed` gives the right to write. */
export type Claim =
  | {
      readonly kind: 'claimed';
      readonly record: RunRecord;
      readonly entries: readonly JournalEntry[];
      readonly seq: number;
      /** No processor call has claimed this run before. */
      readonly first: boolean;
      /** The previous owner did not release the run: it crashed or lost its lock. */
      readonly unclean: boolean;
      readonly previousWorker?: string | undefined;
      readonly cancel?: CancelRequest | undefined;
    }
  | { readonly kind: 'crashed_too_often'; readonly crashes: number }
  | { readonly kind: 'terminal'; readonly status: RunStatus }
  | { readonly kind: 'gone' }
  | { readonly kind: 'stale' };

/** A claim without an event would leave a stale writer's next number free, and `flush` without a fence. */
export function checkClaimEvents(opening: readonly OutgoingEvent[], recovering: readonly OutgoingEvent[]): void {
  if (opening.length > 0 && recovering.length > 0) return;
  throw new RunError('internal', 'a claim needs at least one event, whether it opens or recovers the run');
}

type ClaimReply =
  | readonly [0]
  | readonly [1, RunStatus]
  | readonly [2]
  | readonly [3, number]
  | readonly [4, readonly string[], readonly (string | number)[], readonly string[]];

/** `claim.lua` as a function. Throws `queue_unavailable`, or what {@link claimed} throws. */
export async function claimRun(
  space: RunKeySpace & { readonly clock: Clock },
  request: ClaimRequest,
  opening: readonly OutgoingEvent[],
  recovering: readonly OutgoingEvent[],
): Promise<Claim> {
  const { runId, excusedWorker = '', definition = '' } = request;
  const at = new Date(space.clock.now()).toISOString();
  const args = [
    request.owner,
    request.worker,
    request.queue,
    request.segment,
    request.jobTry,
    request.crashLimit,
    request.blameLimit,
    request.activity,
    excusedWorker,
    at,
    ...eventTargets(space, runId),
    definition,
    opening.length,
    ...opening.map(scriptEvent),
    ...recovering.map(scriptEvent),
  ];
  const reply = (await runOnRun(space, runId, script, args, { doing: `claim of run ${runId}` })) as ClaimReply;

  switch (reply[0]) {
    case 0:
      return { kind: 'gone' };
    case 1:
      return { kind: 'terminal', status: reply[1] };
    case 2:
      return { kind: 'stale' };
    case 3:
      return { kind: 'crashed_too_often', crashes: reply[1] };
    case 4: {
      const hash: Record<string, string> = Object.fromEntries(pairsOf([...reply[1], ...reply[2].map(String)]));
      publishLifecycle(space, runId, hash['epoch'] === '1' ? opening : recovering);
      return claimed(runId, hash, reply[3]);
    }
    default:
      return assertNever(reply[0]);
  }
}

/**
 * Reads what was claimed. The run is already ours when its record or journal turns out to be unreadable, so the error
 * (`run_state_malformed`, `run_state_version_unsupported`) carries `details.seq`, from which the caller can end the run.
 */
function claimed(runId: string, hash: Record<string, string>, journal: readonly string[]): Claim {
  const seq = Number(hash['lastSequence']);
  const { previousWorker, cancel } = hash;
  try {
    return {
      kind: 'claimed',
      record: recordFromHash(hash),
      entries: journal.map((text) => readEntry(text, runId)),
      seq,
      first: hash['epoch'] === '1',
      unclean: hash['unclean'] === '1',
      previousWorker: previousWorker || undefined,
      cancel: cancel ? storedCancel(cancel) : undefined,
    };
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    throw new RunError(error.code, error.message, { cause: error.cause, details: { seq } });
  }
}

/** Reads a journal entry. Throws `run_state_malformed` or `run_state_version_unsupported`. */
export function readEntry(text: string, runId: string): JournalEntry {
  const json = readJson(text, `a journal entry of run ${runId}`);
  const parsed = journalEntry.safeParse(json);
  if (parsed.success) return parsed.data;
  const version = z.object({ v: z.int() }).safeParse(json);
  if (version.success && version.data.v !== journalVersion) {
    throw new RunError(
      'run_state_version_unsupported',
      `run ${runId} has journal entries of version ${version.data.v}`,
    );
  }
  throw new RunError('run_state_malformed', `a journal entry of run ${runId} cannot be read`, { cause: parsed.error });
}

function readJson(text: string, what: string): unknown {
  try {
    return storedJson(text);
  } catch (cause) {
    throw new RunError('run_state_malformed', `${what} is not JSON`, { cause });
  }
}

/** The blame of a run for what it did when it lost its worker. In Redis `claim.lua` counts the same. */
export function blameFor(activity: Activity): number {
  return activity === 'watched' ? 2 : activity === 'calls' ? 1 : 0;
}
