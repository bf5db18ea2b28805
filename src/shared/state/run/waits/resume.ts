import type { EventBody } from '../../../contract/event.ts';
import { newNonce } from '../../../base/ids.ts';
import type { JournalEntryOf } from '../../../contract/journal/journal.ts';
import { legibleLineage, legibleRequest } from '../../../contract/run-record.ts';
import { jsonText } from '../../../base/json.ts';
import { lookSoon } from '../open-runs.ts';
import { loadScript, type RunKeySpace, runOnRun, scriptEvent, eventTargets, stampOf } from '../../script.ts';
import { jobKind, type RunRecord } from '../../../contract/run.ts';

const script = loadScript(import.meta.url, './resume.lua');

/** What ends the wait. */
export interface WaitEnd {
  /** In words, for `run.resumed`. */
  readonly summary: string;
  /**
   * Into the journal, in the same step, with every decision about the run's calls that the journal does not have yet.
   */
  readonly entry: JournalEntryOf<'decided'>;
  /** Only when the run is still at this segment, so that a decision never meets a later wait. Absent: at any. */
  readonly segment?: number;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
}

/** Where the new job of the run belongs. */
export type ResumedRun = Readonly<Pick<RunRecord, 'queue' | 'segment' | 'kind'>>;

/** Adds the job of a resumed run, in front of other runs: what has begun is to end. */
export type AddJob = (run: ResumedRun & { readonly runId: string }) => Promise<void>;

/**
 * Ends the wait of a suspended run: it is queued at its next segment, with `run.resumed` in its log, and its timer is
 * gone. Calls that people were asked about and did not decide stay pending. The caller adds the job; the reconciler would add it
 * if the caller is lost. Undefined when the run is not suspended (any more). Throws `queue_unavailable`; after
 * one it is unknown whether the run was resumed.
 */
export async function resumeRun(space: RunKeySpace, runId: string, end: WaitEnd): Promise<ResumedRun | undefined> {
  const run = await waitingRun(runId, space);
  if (run?.status !== 'suspended') return undefined;
  const event = resumedEvent(run, end);
  const args = waitEndArgs(space, runId, event, end);
  const reply = (await runOnRun(space, runId, script, args, { doing: `resume of run ${runId}` })) as
    | readonly [0]
    | readonly [1, ...WaitEnded];
  if (reply[0] === 0) return undefined;
  const [, ...ended] = reply;
  return await afterWait(space, run, ended);
}

/** Segment, number of the event, queue, job kind, calls that are still pending. */
export type WaitEnded = readonly [number, number, string, string, number];

/** Longer than a run waits: decisions must not expire before. */
const decisionsTtlS = 400 * 86_400;

/** The first arguments of the scripts that end a wait. */
export function waitEndArgs(space: RunKeySpace, runId: string, event: string, end: WaitEnd): (string | number)[] {
  return [
    newNonce(),
    end.segment ?? '',
    new Date(end.atMs).toISOString(),
    event,
    ...eventTargets(space, runId),
    jsonText(end.entry),
    decisionsTtlS,
  ];
}

/** What no script can do, because it is about more than one run. */
export async function afterWait(
  { redis, keys, lifecycle }: RunKeySpace,
  run: { readonly runId: string; readonly tenant: string },
  [segment, , queue, kind, pending]: WaitEnded,
): Promise<ResumedRun> {
  await lifecycle.publish(run.runId);
  // A timer that outlived its wait would end the next one. No job exists yet, so there is no next one.
  const timer = redis.zrem(keys.timers, run.runId);
  await Promise.all(pending === 0 ? [timer, redis.zrem(keys.asking(run.tenant), run.runId)] : [timer]);
  return { queue, segment, kind: jobKind.parse(kind) };
}

/** What the events of a run need of its record. */
export interface WaitingRun extends Readonly<Pick<RunRecord, 'runId' | 'tenant' | 'request' | 'parent'>> {
  readonly status: string;
}

/** A run whose wait is about to end: it is checked soon, in case its job is lost. Undefined when there is no such run. */
export async function waitingRun(runId: string, { redis, keys }: RunKeySpace): Promise<WaitingRun | undefined> {
  const [fields] = await Promise.all([
    redis.hmget(keys.run(runId), ...(['status', 'request', 'tenant', 'parent', 'agent', 'thread'] as const)),
    lookSoon({ redis, keys }, runId),
  ]);
  const [status, request, tenant, parent, agent, thread] = fields;
  if (!status || !tenant) return undefined;
  return { runId, tenant, status, request: legibleRequest({ request, agent, thread }), parent: legibleLineage(parent) };
}

export function resumedEvent(run: WaitingRun, { summary, atMs }: Pick<WaitEnd, 'summary' | 'atMs'>): string {
  const body: EventBody = { type: 'run.resumed', directiveSummary: summary };
  return scriptEvent({ ...stampOf(run), timestamp: new Date(atMs).toISOString(), ...body });
}
