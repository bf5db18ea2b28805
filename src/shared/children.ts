import { z } from 'zod';
import { callDecision, type CancelRequest, type ChildEnd } from './control.ts';
import type { EventBody } from './event.ts';
import { createRuns, type NewRun } from './create-runs.ts';
import { loadScript, runScript } from './redis.ts';
import { cutText } from './redact.ts';
import {
  afterWait,
  resumedEvent,
  resumeRun,
  waitEndArgs,
  waitEndKeys,
  waitingRun,
  type AddJob,
  type WaitEnded,
} from './resume.ts';
import type { RunPlace } from './run-place.ts';
import { isTerminalStatus, recordFromHash, type RunRecord } from './run.ts';
import { publishCommand } from './script-event.ts';
import { stopRun, type Retention } from './stop-run.ts';
import type { ThreadPlace } from './thread-place.ts';
import { passOn } from './thread-turns.ts';

const endedScript = loadScript(import.meta.url, './lua/child-ended.lua');
const eventsScript = loadScript(import.meta.url, './lua/child-events.lua');

/** Longer texts of a child are cut: the run above gets a result of a tool, not a file. */
const maxTextBytes = 256 * 1024;
/** Events of runs below that a run at work has not told yet; the oldest go first. */
const maxWaiting = 1_000;
const waitingTtlS = 7 * 86_400;

/** What work on a family of runs needs beside their place. */
export interface Family {
  readonly place: RunPlace;
  readonly keepOf: (record: RunRecord) => Retention;
  readonly threads: ThreadPlace;
  readonly addJob: AddJob;
}

/** What the run above is told of the end of this one. */
export function childEndOf(record: RunRecord, at: string): ChildEnd | undefined {
  const { runId, status, result, error, costMicrocents, usage, steps, startedAt, endedAt, toolCalls } = record;
  const parsed = callDecision.safeParse({
    kind: 'child',
    id: runId,
    status,
    text: cutText(result?.text ?? '', maxTextBytes),
    ...(result?.structured !== undefined && { structured: result.structured }),
    ...(error && { error }),
    costMicrocents,
    ...(usage && { usage }),
    steps,
    ...(toolCalls !== undefined && { toolCalls }),
    ...(startedAt && endedAt && { durationMs: Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) }),
    at,
  });
  return parsed.success && parsed.data.kind === 'child' ? parsed.data : undefined;
}

/** Tells the run above how this one has ended, and puts it back into its queue if it waits for that. Again changes nothing. */
export async function tellParent(record: RunRecord, { place, addJob }: Family): Promise<void> {
  const { parent } = record;
  const atMs = Date.now();
  const at = new Date(atMs).toISOString();
  const end = parent && childEndOf(record, at);
  if (!end) return;
  const { runId } = parent;
  const above = await waitingRun(runId, place);
  if (!above) return;
  const summary = `run ${record.runId} ${record.status}`;
  const wait = { summary, atMs, entry: { v: 1, t: 'decided', at } } as const;
  const event = resumedEvent(above, wait);
  const args = [...waitEndArgs(place, runId, event, wait), end.id, JSON.stringify(end), end.costMicrocents];
  const reply = (await runScript(place.redis, endedScript, waitEndKeys(place, runId), args)) as
    | readonly [0 | 1]
    | readonly [2, ...WaitEnded];
  if (reply[0] !== 2) return;
  const [, ...ended] = reply;
  await addJob({ runId, ...(await afterWait(place, above, event, ended)) });
}

/**
 * Has runs work for another one: each is created once, however often it is asked for. One that has ended already is told to
 * the run above again.
 */
export async function startChildren(children: readonly NewRun[], family: Family): Promise<void> {
  const { place, addJob } = family;
  const tenant = children[0]?.tenant ?? '';
  const created = await createRuns(children, tenant, place);
  await Promise.all(
    children.map(async ({ runId, queue, kind }, index) => {
      const child = created[index];
      if (!child || child.kind === 'conflict') return;
      if (child.status === 'queued') return await addJob({ runId, queue, kind, segment: child.segment });
      const record = isTerminalStatus(child.status) ? await loadRun(runId, place) : undefined;
      if (record) await tellParent(record, family);
    }),
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
    const record = await loadRun(runId, family.place);
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
  const stopped = await stopRun(record, cancel, family.keepOf(record), family.place);
  const { tenant, runId, request } = record;
  const below = childrenOf(record);
  if (stopped === 'asked' && below.length > 0) await stopRuns(below, cancel, family);
  else if (stopped === 'asked') await wakeToEnd(runId, family);
  if (stopped === 'ended_here' && request.thread !== undefined)
    await passOn(family.threads, { tenant, threadId: request.thread }, runId, family.addJob);
  if (stopped === 'ended_here' && record.parent) {
    const ended = await loadRun(record.runId, family.place);
    if (ended) await tellParent(ended, family);
  }
  return stopped;
}

/** A run of a thread ends on a worker, which writes down how it ended. One that is at work knows already. */
async function wakeToEnd(runId: string, { place, addJob }: Family): Promise<void> {
  const atMs = Date.now();
  const entry = { v: 1, t: 'decided', at: new Date(atMs).toISOString() } as const;
  const resumed = await resumeRun(place, runId, { summary: 'a cancel was asked for', entry, atMs });
  if (resumed) await addJob({ runId, ...resumed });
}

/** The runs that a suspended run waits for. */
export function childrenOf({ pending }: Pick<RunRecord, 'pending'>): readonly string[] {
  return pending.flatMap(({ kind, id }) => (kind === 'child' ? [id] : []));
}

async function loadRun(runId: string, { redis, keys }: RunPlace): Promise<RunRecord | undefined> {
  const hash = await redis.hgetall(keys.run(runId));
  return Object.keys(hash).length === 0 ? undefined : recordFromHash(hash);
}

/**
 * Tells the log of a run above what runs below it do. `stamp` is what every event of that run says. Answers false when it is
 * over and wants to hear nothing more.
 */
export async function tellEvents(
  stamp: Readonly<Record<string, unknown>>,
  events: readonly (EventBody & { readonly timestamp: string })[],
  place: RunPlace,
): Promise<boolean> {
  const { redis, keys, eventLogMax } = place;
  const runId = String(stamp['runId']);
  const reply = (await runScript(
    redis,
    eventsScript,
    [keys.run(runId), keys.events(runId), keys.relayed(runId)],
    [
      eventLogMax,
      keys.live(runId),
      keys.firehose,
      publishCommand(place),
      maxWaiting,
      waitingTtlS,
      // Flagged like deltas: the firehose has the events of the run below already.
      ...events.map((event) => `D${JSON.stringify({ ...stamp, ...event })}`),
    ],
  )) as readonly [0 | 1 | 2];
  return reply[0] !== 0;
}

const told = z.object({
  type: z.literal('subagent.event'),
  childRunId: z.string(),
  childDepth: z.int(),
  event: z.unknown(),
});

/** Takes what runs below told while the run was at work. Only its owner may: nobody else tells its subscribers then. */
export async function takeTold(runId: string, { redis, keys }: RunPlace): Promise<readonly EventBody[]> {
  const key = keys.relayed(runId);
  const [texts] = (await redis.multi().lrange(key, 0, -1).del(key).exec()) ?? [];
  return ((texts?.[1] ?? []) as string[]).map((text) => told.parse(JSON.parse(text.slice(1))));
}
