import { RunError } from '../../../shared/base/errors.ts';
import { noCounts, type ErasedCounts } from '../../../shared/contract/erasure/receipt.ts';
import type { ErasurePlan, PlannedRun } from '../../../shared/state/erasure/plans.ts';
import { cancelRun } from '../cancel.ts';
import type { TenantClient } from '../client-core.ts';
import { inGroups, waitForEnd } from '../read-run.ts';
import { eraseLines, isBatchOpen } from './batch-lines.ts';
import { findErasable, runsOfThread, threadEntries, type ErasableRun } from './find.ts';
import { hasLabels } from './fitting.ts';
import { stillReferredTo } from './references.ts';
import { countLifecycle } from './remove.ts';
import type { Asked } from './request.ts';

/** Runs and threads that are erased together. */
const maxTogether = 10_000;
/** How long a cancelled run may take to end before it counts as open. */
const endMs = 10_000;
/** How far the clocks of processes may be from that of Redis. In a Cluster lifecycle events may come later than their runs end. */
const lateMs = 60_000;
const latestMs = 7 * 86_400_000;

/** Why nothing is erased. `fits`: it is a child of a run that is erased by itself. */
export type Reason = 'open' | 'in_thread' | 'child' | 'in_open_batch' | 'too_many' | 'gone' | 'fits';

/** Everything that goes with some runs and threads, or why none of it may. Cancels runs that have not ended where that is asked. */
export async function planOf(
  seeds: { readonly runs: readonly string[]; readonly threads: readonly string[] },
  asked: Asked,
  client: TenantClient,
): Promise<Omit<ErasurePlan, 'asked'> | Reason> {
  const family = await familyOf(seeds, asked, client);
  if (typeof family === 'string') return family;
  const { runs, threads } = family;
  if (runs.length === 0 && threads.size === 0) return 'gone';
  const batches = new Set(runs.flatMap(({ record }) => record.request.batch ?? []));
  for (const name of batches) if (await isBatchOpen(name, client)) return 'in_open_batch';
  const planned = runs.map((run) => plannedOf(run, client));
  const [batchLines, lifecycleEvents] =
    planned.length === 0
      ? [0, 0]
      : await Promise.all([eraseLines(planned, client, 'count'), countLifecycle(planned, client)]);
  const wanted = {
    media: [...new Set(runs.flatMap(({ media }) => media))],
    files: [...new Set(runs.flatMap(({ files }) => files))],
  };
  const ours = { runs: new Set(runs.map(({ runId }) => runId)), threads: new Set(threads.keys()) };
  const used = await stillReferredTo(wanted, ours, client);
  const media = await those(wanted.media, used, (digest) => hasMedia(digest, client));
  const files = await those(
    wanted.files,
    used,
    async (id) => (await client.core.files.store.info(client.tenant, id)) !== undefined,
  );
  const sum = (pick: (run: ErasableRun) => number) => runs.reduce((total, run) => total + pick(run), 0);
  const counts: ErasedCounts = {
    ...noCounts,
    records: sum(({ inRedis }) => (inRedis ? 1 : 0)),
    journalEntries: sum(({ journalEntries }) => journalEntries),
    events: sum(({ events }) => events),
    lifecycleEvents,
    archived: sum(({ isArchived }) => (isArchived ? 1 : 0)),
    results: runs.length,
    progressNotes: sum(({ progressNotes }) => progressNotes),
    media: media.length,
    files: files.length,
    batchLines,
    threads: threads.size,
    threadEntries: [...threads.values()].reduce((total, entries) => total + entries, 0),
  };
  const kept = {
    media: wanted.media.filter((digest) => used.has(digest)).length,
    files: wanted.files.filter((id) => used.has(id)).length,
  };
  const unreadable = [...new Set(runs.flatMap((run) => run.unreadable))];
  return { runs: planned, threads: [...threads.keys()], media, files, unreadable, kept, counts };
}

async function those(
  names: readonly string[],
  used: ReadonlySet<string>,
  isThere: (name: string) => Promise<boolean>,
): Promise<string[]> {
  const found = await inGroups(
    names.filter((name) => !used.has(name)),
    async (name) => ((await isThere(name)) ? [name] : []),
  );
  return found.flat();
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
    const run = await settled(id, asked, client);
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
    if (!parent) continue;
    const fits = asked.metadata !== undefined && hasLabels(parent.record.request.metadata, asked.metadata);
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
): Promise<ErasableRun | 'open' | undefined> {
  const run = await findErasable(runId, client);
  if (!run?.isOpen) return run;
  if (!cancel) return 'open';
  await cancelRun(runId, { reason: 'erased' }, client).catch((error: unknown) => {
    if (!(error instanceof RunError && endedCodes.has(error.code))) throw error;
  });
  await waitForEnd(runId, { waitMs: endMs }, client);
  const ended = await findErasable(runId, client);
  return ended?.isOpen ? 'open' : ended;
}

function plannedOf({ runId, record, queues }: ErasableRun, { core }: TenantClient): PlannedRun {
  const { batch, executionId } = record.request;
  const ended = record.endedAt === undefined ? Date.now() : Date.parse(record.endedAt);
  return {
    runId,
    queues: [...queues],
    segment: record.segment,
    fromMs: Date.parse(record.createdAt) - lateMs,
    toMs: ended + (core.cluster ? latestMs : lateMs),
    batch,
    executionId,
  };
}
