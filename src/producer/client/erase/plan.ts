import { RunError } from '../../../shared/base/errors.ts';
import { noCounts, type ErasedCounts } from '../../../shared/contract/erasure/receipt.ts';
import { usualSkewMs } from '../../../shared/state/erasure/lifecycle-entries.ts';
import type { ErasurePlan, PlannedRun } from '../../../shared/state/erasure/plans.ts';
import { cancelRun } from '../cancel.ts';
import { hasLabels } from '../../../shared/contract/archive/labels.ts';
import type { TenantClient } from '../client-core.ts';
import { inGroups, waitForEnd } from '../read-run.ts';
import { eraseLines, isBatchOpen } from './batch-lines.ts';
import { findErasable, refersTo, runsOfThread, threadEntries, type ErasableRun, type KnownParents } from './find.ts';
import { stillReferredTo, textOfThread } from './references.ts';
import { countLifecycle } from './remove.ts';
import type { Asked } from './request.ts';

/** Runs and threads that are erased together. */
const maxTogether = 10_000;
/** How long a cancelled run may take to end before it counts as open. */
const endMs = 10_000;
/** In a Cluster lifecycle events may come later than their runs end. */
const latestMs = 7 * 86_400_000;

/** Why nothing is erased. `fits`: it is a child of a run that is erased by itself. */
export type Reason = 'open' | 'in_thread' | 'child' | 'in_open_batch' | 'too_many' | 'gone' | 'fits';

/** What a plan says of itself, whatever was asked for. */
export type Planned = Omit<ErasurePlan, 'asked'>;

const nothing: Planned = {
  runs: [],
  threads: [],
  media: [],
  files: [],
  unreadable: [],
  kept: { media: [], files: [] },
  counts: noCounts,
};

/**
 * Everything that goes with some runs and threads, or why none of it may. Cancels runs that have not ended where that is asked.
 * `begun`: a plan for them that was carried out in part, maybe long ago. Its runs may have been redriven since, its threads may have
 * others, and other runs may refer to its files: the plan is that one with all of this.
 */
export async function planOf(
  seeds: { readonly runs: readonly string[]; readonly threads: readonly string[] },
  asked: Asked,
  client: TenantClient,
  parents: KnownParents,
  begun?: Planned,
): Promise<Planned | Reason> {
  const family = await familyOf(seeds, asked, client, parents);
  if (typeof family === 'string') return family;
  const { runs, threads } = family;
  if (runs.length === 0 && threads.size === 0 && !begun) return 'gone';
  const batches = new Set(runs.flatMap(({ record }) => record.request.batch ?? []));
  for (const name of batches) if (await isBatchOpen(name, client)) return 'in_open_batch';
  return await extended(begun ?? nothing, family, client);
}

/** A plan with a family of which it may have a part already: that is counted as it was found first. */
async function extended(begun: Planned, { runs, threads }: Family, client: TenantClient): Promise<Planned> {
  const known = new Map(begun.runs.map((run) => [run.runId, run]));
  const planned = runs.map((run) => withEarlier(plannedOf(run, client), known.get(run.runId)));
  const all = [...new Map([...begun.runs, ...planned].map((run) => [run.runId, run])).values()];
  const allThreads = new Set([...begun.threads, ...threads.keys()]);
  const ours = { runs: new Set(all.map(({ runId }) => runId)), threads: allThreads };
  const ofThreads = await inGroups([...threads.keys()], async (id) => refersTo(await textOfThread(id, client)));
  const owners = [...runs, ...ofThreads];
  const wanted = {
    media: [...new Set([...begun.media, ...begun.kept.media, ...owners.flatMap(({ media }) => media)])],
    files: [...new Set([...begun.files, ...begun.kept.files, ...owners.flatMap(({ files }) => files)])],
  };
  const used = await stillReferredTo(wanted, ours, client);
  // Those that were begun with may be gone by now.
  const media = await divided(wanted.media, used, async (digest) => {
    return begun.media.includes(digest) || (await hasMedia(digest, client));
  });
  const files = await divided(wanted.files, used, async (id) => {
    return begun.files.includes(id) || (await client.core.files.store.info(client.tenant, id)) !== undefined;
  });
  const added = await countsOf(
    runs.filter(({ runId }) => !known.has(runId)),
    new Map([...threads].filter(([threadId]) => !begun.threads.includes(threadId))),
    client,
  );
  const names = Object.keys(noCounts) as (keyof ErasedCounts)[];
  const sums = Object.fromEntries(names.map((name) => [name, begun.counts[name] + added[name]])) as ErasedCounts;
  return {
    runs: all,
    threads: [...allThreads],
    media: media.going,
    files: files.going,
    unreadable: [...new Set([...begun.unreadable, ...runs.flatMap((run) => run.unreadable)])],
    kept: { media: media.staying, files: files.staying },
    counts: { ...sums, media: media.going.length, files: files.going.length },
  };
}

/** Without files: which of them go is known last. */
async function countsOf(
  runs: readonly ErasableRun[],
  threads: ReadonlyMap<string, number>,
  client: TenantClient,
): Promise<ErasedCounts> {
  const planned = runs.map((run) => plannedOf(run, client));
  const [batchLines, lifecycleEvents] =
    planned.length === 0
      ? [0, 0]
      : await Promise.all([eraseLines(planned, client, 'count'), countLifecycle(planned, client)]);
  const sum = (pick: (run: ErasableRun) => number) => runs.reduce((total, run) => total + pick(run), 0);
  return {
    ...noCounts,
    records: sum(({ inRedis }) => (inRedis ? 1 : 0)),
    journalEntries: sum(({ journalEntries }) => journalEntries),
    events: sum(({ events }) => events),
    lifecycleEvents,
    archived: sum(({ isArchived }) => (isArchived ? 1 : 0)),
    results: runs.length,
    progressNotes: sum(({ progressNotes }) => progressNotes),
    batchLines,
    threads: threads.size,
    threadEntries: [...threads.values()].reduce((total, entries) => total + entries, 0),
  };
}

/** Files that go, and files that stay. */
async function divided(
  names: readonly string[],
  used: ReadonlySet<string>,
  isCounted: (name: string) => Promise<boolean>,
): Promise<{ going: string[]; staying: string[] }> {
  const going = await inGroups(
    names.filter((name) => !used.has(name)),
    async (name) => ((await isCounted(name)) ? [name] : []),
  );
  return { going: going.flat(), staying: names.filter((name) => used.has(name)) };
}

async function hasMedia(digest: string, { core, tenant }: TenantClient): Promise<boolean> {
  return (await core.reach((redis) => redis.exists(core.keys.media(tenant, digest)))) === 1;
}

interface Family {
  readonly runs: readonly ErasableRun[];
  /** With the entries of its log. */
  readonly threads: ReadonlyMap<string, number>;
}

/** Runs with their children, and with the threads that are erased with them. */
async function familyOf(
  seeds: { readonly runs: readonly string[]; readonly threads: readonly string[] },
  asked: Asked,
  client: TenantClient,
  parents: KnownParents,
): Promise<Family | Reason> {
  const runs = new Map<string, ErasableRun>();
  const threads = new Map<string, number>();
  const waiting = [...seeds.runs];
  const addThread = async (threadId: string): Promise<void> => {
    if (threads.has(threadId)) return;
    const entries = await threadEntries(threadId, client);
    if (entries === undefined) return;
    threads.set(threadId, entries);
    waiting.push(...(await runsOfThread(threadId, client)));
  };
  for (const thread of seeds.threads) await addThread(thread);
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (runs.has(id)) continue;
    const run = await settled(id, asked, client, parents);
    if (run === undefined) continue;
    if (run === 'open') return 'open';
    runs.set(id, run);
    if (runs.size > maxTogether) return 'too_many';
    waiting.push(...run.children);
    const { thread } = run.record.request;
    if (thread === undefined || threads.has(thread)) continue;
    if (asked.threads || asked.thread !== undefined) await addThread(thread);
    else if ((await threadEntries(thread, client)) !== undefined) return 'in_thread';
  }
  const outside = await parentOutside(runs, asked, client);
  return outside ?? { runs: [...runs.values()], threads };
}

/** A parent that is not erased has what its child answered. */
async function parentOutside(
  runs: ReadonlyMap<string, ErasableRun>,
  asked: Asked,
  client: TenantClient,
): Promise<Reason | undefined> {
  for (const { record } of runs.values()) {
    const parentId = record.parent?.runId;
    if (parentId === undefined || runs.has(parentId)) continue;
    const parent = await findErasable(parentId, client);
    if (!parent?.inRedis && !parent?.isArchived) continue;
    const fits = asked.metadata !== undefined && hasLabels(parent.labelled, asked.metadata);
    return fits ? 'fits' : 'child';
  }
  return undefined;
}

const endedCodes: ReadonlySet<string> = new Set(['already_terminal', 'gone', 'run_not_found']);

/** The run once it has ended. */
async function settled(
  runId: string,
  { cancel }: Asked,
  client: TenantClient,
  parents: KnownParents,
): Promise<ErasableRun | 'open' | undefined> {
  const run = await findErasable(runId, client, parents);
  if (!run?.isOpen) return run;
  if (!cancel) return 'open';
  await cancelRun(runId, { reason: 'erased' }, client).catch((error: unknown) => {
    if (!(error instanceof RunError && endedCodes.has(error.code))) throw error;
  });
  await waitForEnd(runId, { waitMs: endMs }, client);
  const ended = await findErasable(runId, client, parents);
  return ended?.isOpen ? 'open' : ended;
}

function plannedOf({ runId, record, queues }: ErasableRun, { core }: TenantClient): PlannedRun {
  const { batch, executionId } = record.request;
  const ended = record.endedAt === undefined ? Date.now() : Date.parse(record.endedAt);
  return {
    runId,
    queues: [...queues],
    segment: record.segment,
    createdAt: record.createdAt,
    lastSequence: record.lastSequence,
    toMs: ended + (core.cluster ? latestMs : usualSkewMs),
    batch,
    executionId,
  };
}

/** A run that was redriven since it was planned may be in another queue; of one that can no longer be read less is known. */
function withEarlier(run: PlannedRun, earlier: PlannedRun | undefined): PlannedRun {
  if (!earlier) return run;
  return {
    ...run,
    queues: [...new Set([...earlier.queues, ...run.queues])],
    batch: earlier.batch ?? run.batch,
    executionId: earlier.executionId ?? run.executionId,
  };
}
