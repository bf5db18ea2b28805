import { callDecision, storedCancel, type CancelRequest, type ChildEnd } from '../../../contract/control.ts';
import type { EventBody } from '../../../contract/event.ts';
import { createRuns, type NewRun } from '../create-runs.ts';
import { newNonce } from '../../../base/ids.ts';
import { jsonText } from '../../../base/json.ts';
import { loadScript, runScript, type RunKeySpace, runOnRun, eventTargets } from '../../script.ts';
import { forgetOpen, loadRun } from '../open-runs.ts';
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
import { durationOf, isTerminalStatus, type RunOutcomeView, type RunRecord } from '../../../contract/run.ts';
import { stopRun } from '../control/stop-run.ts';
import type { ThreadKeySpace } from '../../thread/key-space.ts';
import { lookSoonAtThread, releaseToNext } from '../../thread/lock.ts';
import type { FlowLabel } from '../../../contract/message.ts';
import { emptyRunUsage } from '../../../contract/money.ts';
import { defined } from '../../../base/collections.ts';
import { withNamedErrors } from '../../errors.ts';

const endedScript = loadScript(import.meta.url, './child-ended.lua');
const groupScript = loadScript(import.meta.url, './wait-for-group.lua');
const eventsScript = loadScript(import.meta.url, './child-events.lua');

/** Longer texts of a child are cut: its parent gets a result of a tool, not a file. */
const maxTextBytes = 256 * 1024;
/** Events of children that wait for a running parent; the oldest are dropped first. */
const maxWaiting = 1_000;
const waitingTtlS = 7 * 86_400;
/** Longer than a run waits: a group must not expire before. */
const groupTtlS = 400 * 86_400;

/** How children are stopped whose parent has ended. */
export const parentEnded: CancelRequest = {
  drain: false,
  onPendingApprovals: 'deny',
  reason: 'the run that it worked for has ended',
};

/** What work on parents and children needs. */
export interface Family {
  readonly space: RunKeySpace;
  readonly threads: ThreadKeySpace;
  readonly addJob: AddJob;
  /** Called with a run that was created here. */
  readonly onAccepted: (run: NewRun) => void;
  /** Called with a run that ended here because no worker had it, as it is after its end, and with its last event. */
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

/** What a parent gets about the end of this run. */
export function childEndOf(record: RunRecord, at: string): ChildEnd | undefined {
  const { runId, status, result, error, unfinished, costMicrocents, usage, steps, toolCalls, flow, leaks } = record;
  const child = {
    kind: 'child',
    id: runId,
    status,
    text: cutText(result?.text ?? '', maxTextBytes),
    structured: result?.structured,
    error,
    incomplete: result?.incomplete,
    unfinished,
    costMicrocents,
    usage,
    steps,
    toolCalls,
    durationMs: durationOf(record),
    flow,
    leaks,
    at,
  };
  const parsed = callDecision.safeParse(defined(child));
  return parsed.success && parsed.data.kind === 'child' ? parsed.data : undefined;
}

/** The text of a degraded run stands for its answer. */
export function isAnswer({ status }: Pick<RunOutcomeView, 'status'>): boolean {
  return status === 'completed' || status === 'degraded';
}

/**
 * Records for the parent how this run has ended, and queues it if it waited for that; where it waits for a group, the next child
 * begins. Again changes nothing.
 */
export async function notifyParent(record: RunRecord, family: Family): Promise<void> {
  const { space, addJob } = family;
  const { parent } = record;
  const atMs = Date.now();
  const at = new Date(atMs).toISOString();
  const end = parent && childEndOf(record, at);
  if (!end) return;
  const { runId } = parent;
  const waiting = await waitingRun(runId, space);
  if (!waiting) return;
  const summary = `run ${record.runId} ${record.status}`;
  const wait = { summary, atMs, entry: { v: 1, t: 'decided', at } } as const;
  const event = resumedEvent(waiting, wait);
  const about = [end.id, jsonText(end), end.costMicrocents, isAnswer(end) ? 1 : 0];
  const args = [...waitEndArgs(space, runId, event, wait), ...about];
  const reply = (await runOnRun(space, runId, endedScript, args, {
    doing: `end of run ${record.runId} for run ${runId}`,
  })) as readonly [0 | 1] | readonly [2, ...WaitEnded] | readonly [3, string, string];
  if (reply[0] === 3) return await startChildren([siblingOf(reply[1], reply[2])], family);
  if (reply[0] !== 2) return;
  const [, ...ended] = reply;
  await addJob({ runId, ...(await afterWait(space, waiting, ended)) });
}

/** What a run that begins later has of its own. No input, or no label: that of the template. */
interface OwnPart extends Pick<NewRun, 'runId' | 'bodyHash'> {
  readonly agent: string;
  readonly input?: string | undefined;
  readonly flow?: FlowLabel | undefined;
}

function siblingOf(templateJson: string, ownJson: string): NewRun {
  const template = JSON.parse(templateJson) as NewRun;
  const { runId, bodyHash, agent, input = template.request.input, flow } = JSON.parse(ownJson) as OwnPart;
  const parent = template.parent && flow ? { ...template.parent, flow } : template.parent;
  const request = { ...template.request, agent, input };
  return defined({ ...template, runId, bodyHash, nonce: newNonce(), request, parent });
}

/**
 * Creates children, each once, also when it is repeated. The parent is notified again of one that has ended. With a `group` the
 * parent waits for all of them, and for those that begin later. Children are stopped when their parent was cancelled, or ended,
 * before it could know of them.
 */
export async function startChildren(children: readonly NewRun[], family: Family, group?: RunGroup): Promise<void> {
  const { space, addJob } = family;
  const parentId = children[0]?.parent?.runId;
  if (group && parentId !== undefined) await waitForGroup(parentId, group, space);
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
  const cancel = await cancelOfParent(parentId, space);
  const runIds = children.map(({ runId }) => runId);
  if (cancel) await stopRuns(runIds, cancel, family);
}

/** Looked up once the children exist: a process that stops the parent from then on finds them. */
async function cancelOfParent(runId: string | undefined, { redis, keys }: RunKeySpace) {
  if (runId === undefined) return undefined;
  const [endedAt, cancel] = await redis.hmget(keys.run(runId), 'endedAt', 'cancel');
  if (endedAt) return parentEnded;
  return cancel ? storedCancel(cancel) : undefined;
}

async function waitForGroup(runId: string, { segment, first, later }: RunGroup, { redis, keys }: RunKeySpace) {
  const [template] = later;
  const flowOf = ({ parent }: NewRun) => (parent?.flow ? jsonText(parent.flow) : '');
  const own = later.map((run): OwnPart => {
    const { runId: id, bodyHash, parent } = run;
    const { agent, input } = run.request;
    return {
      runId: id,
      bodyHash,
      agent,
      input: input === template?.request.input ? undefined : input,
      flow: template && flowOf(run) === flowOf(template) ? undefined : parent?.flow,
    };
  });
  const texts = own.map((part) => jsonText(part));
  const args = [segment, first ? 1 : 0, template ? jsonText(template) : '', groupTtlS, ...texts];
  const doing = `wait of run ${runId} for its children`;
  await runScript(redis, groupScript, [keys.run(runId), keys.later(runId)], args, { doing });
}

/** Asks runs and their children to stop. Returns the ones that do not exist. */
export async function stopRuns(runIds: readonly string[], cancel: CancelRequest, family: Family): Promise<string[]> {
  const gone: string[] = [];
  for (const runId of runIds) {
    const record = await loadRun(runId, family.space);
    if (!record) gone.push(runId);
    else await stopFamily(record, cancel, family);
  }
  return gone;
}

/** Asks a run and its children to stop; it ends once they have. */
export async function stopFamily(record: RunRecord, cancel: CancelRequest, family: Family): ReturnType<typeof stopRun> {
  const { tenant, runId, request } = record;
  if (request.thread !== undefined) await lookSoonAtThread(family.threads, { tenant, threadId: request.thread });
  const stopped = await stopRun(record, cancel, family.space);
  if (stopped === 'asked') {
    // From now on no child begins: all of them are known.
    const children = childrenOf((await loadRun(runId, family.space)) ?? record);
    const gone = await stopRuns(children, cancel, family);
    if (gone.length > 0 || children.length === 0) await resumeToEnd(runId, family);
  }
  if (stopped === 'ended_here' && request.thread !== undefined)
    await releaseToNext(family.threads, { tenant, threadId: request.thread }, record, family.addJob);
  if (stopped === 'ended_here') {
    const ended = await loadRun(runId, family.space);
    if (ended) family.onEnded(ended, lastOf(ended));
    if (ended?.parent) await notifyParent(ended, family);
    // Last: the reconciler finds what a crash leaves undone while the run is listed.
    await forgetOpen(family.space, runId, tenant);
  }
  return stopped;
}

/** The last event of a run that was stopped without a worker. */
function lastOf(record: RunRecord): EventBody {
  const { error, usage = emptyRunUsage, costMicrocents } = record;
  const end = { usage, costMicrocents, durationMs: durationOf(record) };
  return error ? { type: 'run.failed', error, ...end } : { type: 'run.cancelled', drained: false, ...end };
}

/** A run of a thread ends on a worker, which writes its result. A running one has the cancel already. */
async function resumeToEnd(runId: string, { space, addJob }: Family): Promise<void> {
  const atMs = Date.now();
  const entry = { v: 1, t: 'decided', at: new Date(atMs).toISOString() } as const;
  const resumed = await resumeRun(space, runId, { summary: 'a cancel was asked for', entry, atMs });
  if (resumed) await addJob({ runId, ...resumed });
}

/** The runs that a suspended run waits for. */
export function childrenOf({ pending }: Pick<RunRecord, 'pending'>): readonly string[] {
  return pending.flatMap(({ kind, id }) => (kind === 'child' ? [id] : []));
}

/**
 * Runs that work for other runs. A child is a run of its own, on any worker; its parent is suspended meanwhile. Kept in
 * Redis by `redisChildren`, in memory by `local/stores/in-memory-waits.ts`; both pass `test/contract/children.ts`.
 * Throws `queue_unavailable` when the store cannot be reached.
 */
export interface Children {
  /**
   * Creates these children, each at most once, and queues those that have not begun. The parent is notified again of one that has
   * ended. Each end resumes the parent; with a `group` it resumes when all have ended, later ones included, or when the `first`
   * has completed. A cancel of the parent keeps later children from beginning.
   */
  start(children: readonly NewRun[], group?: RunGroup): Promise<void>;
  /** Asks runs and their children to stop. Returns the ones that do not exist. */
  stop(runIds: readonly string[], cancel: CancelRequest): Promise<readonly string[]>;
  /** Notifies the parent of how this run has ended, which may end its wait. Again changes nothing. */
  ended(runId: string): Promise<void>;
  /**
   * Adds events to the log of a parent, at once while it is suspended, otherwise with its next claim. `stamp` is what every event
   * of the parent has. False: it has ended and takes no more.
   */
  relay(
    stamp: Readonly<Record<string, unknown>>,
    events: readonly (EventBody & { readonly timestamp: string })[],
  ): Promise<boolean>;
}

/** The children in Redis. */
export function redisChildren(family: Family): Children {
  const { space } = family;
  return withNamedErrors<Children>('children', {
    start: async (children, group) => await startChildren(children, family, group),
    stop: async (runIds, cancel) => await stopRuns(runIds, cancel, family),
    async ended(runId) {
      const record = await loadRun(runId, space);
      if (record?.parent) await notifyParent(record, family);
    },
    async relay(stamp, events) {
      const { redis, keys } = space;
      const runId = String(stamp['runId']);
      const own = [keys.run(runId), keys.events(runId), keys.relayed(runId)];
      // Flagged like deltas: the firehose has the events of the child already.
      const texts = events.map((event) => `D${jsonText({ ...stamp, ...event })}`);
      const args = [...eventTargets(space, runId), maxWaiting, waitingTtlS, ...texts];
      const doing = `events of children of run ${runId}`;
      const reply = (await runScript(redis, eventsScript, own, args, { doing })) as readonly [0 | 1 | 2];
      return reply[0] !== 0;
    },
  });
}
