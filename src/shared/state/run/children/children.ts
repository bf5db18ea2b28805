import { callDecision, storedCancel, type CancelRequest, type ChildEnd } from '../../../contract/control.ts';
import type { EventBody } from '../../../contract/event.ts';
import { createRuns, type NewRun } from '../create-runs.ts';
import { newNonce } from '../../../base/ids.ts';
import { legibleRecord } from '../../../contract/legible-record.ts';
import { jsonText } from '../../../base/json-text.ts';
import { loadScript, runScript, type RunKeySpace, runKeys, eventTargets } from '../../script.ts';
import { forgetOpen } from '../open-runs.ts';
import { cutText } from '../../../base/redact.ts';
import {
  afterWait,
  resumedEvent,
  resumeRun,
  waitingRun,
  type AddJob,
  type WaitEnded,
  waitEndArgs,
} from '../waits/resume.ts';
import { isTerminalStatus, type RunOutcomeView, type RunRecord } from '../../../contract/run.ts';
import { stopRun } from '../control/stop-run.ts';
import type { ThreadKeySpace } from '../../thread/key-space.ts';
import { lookSoonAtThread } from '../../thread/wait-queue.ts';
import { releaseToNext } from '../../thread/turns.ts';
import { zeroUsage } from '../../../contract/money.ts';
import { defined } from '../../../base/defined.ts';

const endedScript = loadScript(import.meta.url, './child-ended.lua');
const groupScript = loadScript(import.meta.url, './wait-for-group.lua');
const eventsScript = loadScript(import.meta.url, './child-events.lua');

/** Longer texts of a child are cut: the run above gets a result of a tool, not a file. */
const maxTextBytes = 256 * 1024;
/** Events of runs below that a run at work has not told yet; the oldest go first. */
const maxWaiting = 1_000;
const waitingTtlS = 7 * 86_400;
/** A run that waits for years is not what its group is lost to. */
const groupTtlS = 400 * 86_400;

/** How runs are stopped whose run above is over. */
export const parentEnded: CancelRequest = {
  drain: false,
  onPendingApprovals: 'deny',
  reason: 'the run that it worked for is over',
};

/** What work on a family of runs needs beside their place. */
export interface Family {
  readonly space: RunKeySpace;
  readonly threads: ThreadKeySpace;
  readonly addJob: AddJob;
  /** Told of a run that was made here. */
  readonly onAccepted: (run: NewRun) => void;
  /** Told of a run that has ended here, because no worker had it, as it is after its end, and of its last event. */
  readonly onEnded: (run: RunRecord, last: EventBody) => void;
}

/** How a run waits for several others: until all have ended, and not until the next one has. */
export interface RunGroup {
  /** Of the run that waits: the segment in which it does. Of another one nothing is changed. */
  readonly segment: number;
  /** The first that completes ends the wait. */
  readonly first: boolean;
  /** Runs of one kind, which begin one by one as others end, in this order. */
  readonly later: readonly NewRun[];
}

/** What the run above is told of the end of this one. */
export function childEndOf(record: RunRecord, at: string): ChildEnd | undefined {
  const { runId, status, result, error, costMicrocents, usage, steps, startedAt, endedAt, toolCalls } = record;
  const child = {
    kind: 'child',
    id: runId,
    status,
    text: cutText(result?.text ?? '', maxTextBytes),
    structured: result?.structured,
    error,
    costMicrocents,
    usage,
    steps,
    toolCalls,
    durationMs: durationOf({ startedAt, endedAt }),
    at,
  };
  const parsed = callDecision.safeParse(defined(child));
  return parsed.success && parsed.data.kind === 'child' ? parsed.data : undefined;
}

function durationOf({ startedAt, endedAt }: Pick<RunRecord, 'startedAt' | 'endedAt'>): number | undefined {
  return startedAt && endedAt ? Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) : undefined;
}

/** A degraded end is what the agent says in place of an answer. */
export function isAnswer({ status }: Pick<RunOutcomeView, 'status'>): boolean {
  return status === 'completed' || status === 'degraded';
}

/**
 * Tells the run above how this one has ended, and puts it back into its queue if it waits for that; where it waits for several,
 * the next one begins. Again changes nothing.
 */
export async function notifyParent(record: RunRecord, family: Family): Promise<void> {
  const { space, addJob } = family;
  const { parent } = record;
  const atMs = Date.now();
  const at = new Date(atMs).toISOString();
  const end = parent && childEndOf(record, at);
  if (!end) return;
  const { runId } = parent;
  const above = await waitingRun(runId, space);
  if (!above) return;
  const summary = `run ${record.runId} ${record.status}`;
  const wait = { summary, atMs, entry: { v: 1, t: 'decided', at } } as const;
  const event = resumedEvent(above, wait);
  const about = [end.id, jsonText(end), end.costMicrocents, isAnswer(end) ? 1 : 0];
  const args = [...waitEndArgs(space, runId, event, wait), ...about];
  const doing = `end of run ${record.runId} for run ${runId}`;
  const reply = (await runScript(space.redis, endedScript, runKeys(space, runId), args, { doing })) as
    | readonly [0 | 1]
    | readonly [2, ...WaitEnded]
    | readonly [3, string, string];
  if (reply[0] === 3) return await startChildren([siblingOf(reply[1], reply[2])], family);
  if (reply[0] !== 2) return;
  const [, ...ended] = reply;
  await addJob({ runId, ...(await afterWait(space, above, ended)) });
}

/** What a run that begins later has of its own. No input: that of the template. */
interface OwnPart extends Pick<NewRun, 'runId' | 'bodyHash'> {
  readonly agent: string;
  readonly input?: string | undefined;
}

function siblingOf(templateJson: string, ownJson: string): NewRun {
  const template = JSON.parse(templateJson) as NewRun;
  const { runId, bodyHash, agent, input = template.request.input } = JSON.parse(ownJson) as OwnPart;
  return { ...template, runId, bodyHash, nonce: newNonce(), request: { ...template.request, agent, input } };
}

/**
 * Has runs work for another one: each is created once, however often it is asked for. One that has ended already is told to
 * the run above again. With a `group` the run above waits for all of them, and for those that begin later. They are stopped
 * where that run was to stop, or is over, before it could know of them.
 */
export async function startChildren(children: readonly NewRun[], family: Family, group?: RunGroup): Promise<void> {
  const { space, addJob } = family;
  const above = children[0]?.parent?.runId;
  if (group && above !== undefined) await waitForGroup(above, group, space);
  const tenant = children[0]?.tenant ?? '';
  const created = await createRuns(children, tenant, space);
  for (const [index, child] of children.entries()) if (created[index]?.kind === 'created') family.onAccepted(child);
  await Promise.all(
    children.map(async ({ runId, queue, kind }, index) => {
      const child = created[index];
      if (!child || child.kind === 'conflict') return;
      if (child.status === 'queued') return await addJob({ runId, queue, kind, segment: child.segment });
      const record = isTerminalStatus(child.status) ? await loadRun(runId, space) : undefined;
      if (record) await notifyParent(record, family);
    }),
  );
  const cancel = await cancelAbove(above, space);
  if (cancel)
    await stopRuns(
      children.map(({ runId }) => runId),
      cancel,
      family,
    );
}

/** Looked up once the runs below are there: whoever stops the run above from then on finds them. */
async function cancelAbove(
  runId: string | undefined,
  { redis, keys }: RunKeySpace,
): Promise<CancelRequest | undefined> {
  if (runId === undefined) return undefined;
  const [endedAt, cancel] = await redis.hmget(keys.run(runId), 'endedAt', 'cancel');
  if (endedAt) return parentEnded;
  return cancel ? storedCancel(cancel) : undefined;
}

async function waitForGroup(
  runId: string,
  { segment, first, later }: RunGroup,
  { redis, keys }: RunKeySpace,
): Promise<void> {
  const [template] = later;
  const own = later.map(({ runId: id, bodyHash, request: { agent, input } }): OwnPart => ({
    runId: id,
    bodyHash,
    agent,
    input: input === template?.request.input ? undefined : input,
  }));
  await runScript(
    redis,
    groupScript,
    [keys.run(runId), keys.later(runId)],
    [segment, first ? 1 : 0, template ? jsonText(template) : '', groupTtlS, ...own.map((part) => jsonText(part))],
    { doing: `wait of run ${runId} for its children` },
  );
}

/** Asks runs to stop, and those that work for them. Answers the ones that are not there. */
export async function stopRuns(
  runIds: readonly string[],
  cancel: CancelRequest,
  family: Family,
): Promise<readonly string[]> {
  const gone: string[] = [];
  for (const runId of runIds) {
    const record = await loadRun(runId, family.space);
    if (!record) gone.push(runId);
    else await stopFamily(record, cancel, family);
  }
  return gone;
}

/** Asks a run to stop, and those that work for it; it ends once they have. */
export async function stopFamily(
  record: RunRecord,
  cancel: CancelRequest,
  family: Family,
): Promise<Awaited<ReturnType<typeof stopRun>>> {
  const { tenant, runId, request } = record;
  if (request.thread !== undefined) await lookSoonAtThread(family.threads, { tenant, threadId: request.thread });
  const stopped = await stopRun(record, cancel, family.space);
  if (stopped === 'asked') {
    // From now on none begins: those that work are known.
    const below = childrenOf((await loadRun(runId, family.space)) ?? record);
    const gone = await stopRuns(below, cancel, family);
    if (gone.length > 0 || below.length === 0) await wakeToEnd(runId, family);
  }
  if (stopped === 'ended_here' && request.thread !== undefined)
    await releaseToNext(family.threads, { tenant, threadId: request.thread }, record, family.addJob);
  if (stopped === 'ended_here') {
    const ended = await loadRun(runId, family.space);
    if (ended) family.onEnded(ended, lastOf(ended));
    if (ended?.parent) await notifyParent(ended, family);
    // Last: what is lost on the way here is found where the run is listed.
    await forgetOpen(family.space, runId, tenant);
  }
  return stopped;
}

/** The last event of a run that was stopped without a worker. */
function lastOf({ error, usage, costMicrocents, startedAt, endedAt }: RunRecord): EventBody {
  const end = {
    usage: usage ?? { ...zeroUsage, byModel: {} },
    costMicrocents,
    durationMs: durationOf({ startedAt, endedAt }),
  };
  return error ? { type: 'run.failed', error, ...end } : { type: 'run.cancelled', drained: false, ...end };
}

/** A run of a thread ends on a worker, which writes down how it ended. One that is at work knows already. */
async function wakeToEnd(runId: string, { space, addJob }: Family): Promise<void> {
  const atMs = Date.now();
  const entry = { v: 1, t: 'decided', at: new Date(atMs).toISOString() } as const;
  const resumed = await resumeRun(space, runId, { summary: 'a cancel was asked for', entry, atMs });
  if (resumed) await addJob({ runId, ...resumed });
}

/** The runs that a suspended run waits for. */
export function childrenOf({ pending }: Pick<RunRecord, 'pending'>): readonly string[] {
  return pending.flatMap(({ kind, id }) => (kind === 'child' ? [id] : []));
}

async function loadRun(runId: string, { redis, keys }: RunKeySpace): Promise<RunRecord | undefined> {
  const hash = await redis.hgetall(keys.run(runId));
  return Object.keys(hash).length === 0 ? undefined : legibleRecord(hash);
}

/**
 * Tells the log of a run above what runs below it do. `stamp` is what every event of that run says. Answers false when it is
 * over and wants to hear nothing more.
 */
export async function relayEvents(
  stamp: Readonly<Record<string, unknown>>,
  events: readonly (EventBody & { readonly timestamp: string })[],
  space: RunKeySpace,
): Promise<boolean> {
  const { redis, keys } = space;
  const runId = String(stamp['runId']);
  const reply = (await runScript(
    redis,
    eventsScript,
    [keys.run(runId), keys.events(runId), keys.relayed(runId)],
    [
      ...eventTargets(space, runId),
      maxWaiting,
      waitingTtlS,
      // Flagged like deltas: the firehose has the events of the run below already.
      ...events.map((event) => `D${jsonText({ ...stamp, ...event })}`),
    ],
    { doing: `events of children of run ${runId}` },
  )) as readonly [0 | 1 | 2];
  return reply[0] !== 0;
}
