import { Worker } from 'bullmq';
import { z } from 'zod';
import { isAboutCall } from '../../shared/contract/decisions.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import type { RunError } from '../../shared/base/errors.ts';
import { inLanes } from '../../shared/base/collections.ts';
import { inTime, isUnavailable } from '../../shared/state/errors.ts';
import { settledMs } from '../../shared/state/run/open-runs.ts';
import { jobIdFor } from '../../shared/base/ids.ts';
import type { Log } from '../../shared/base/log.ts';
import { budgetScope } from '../../shared/contract/money.ts';
import { maintenanceQueue, quarantineQueue } from '../../shared/contract/queues.ts';
import { isTerminalStatus, type RunJob } from '../../shared/contract/run.ts';
import type { DueThread, DueEntry } from '../../shared/state/thread/lock.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';
import type { Ledger } from '../../shared/state/money/ledger.ts';
import type { Children } from '../../shared/state/run/children/children.ts';
import type { OpenRunInfo, Supervision } from '../../shared/state/run/supervision.ts';
import type { RunStore } from '../../shared/state/run/run-store.ts';
import type { RunQueues } from '../../shared/state/fleet/queues.ts';
import type { QueueSettings } from './fetch-loops.ts';

export interface ReconcileDeps {
  readonly supervision: Supervision;
  readonly queues: RunQueues;
  readonly ledger: Pick<Ledger, 'await'>;
  readonly threads: Pick<ThreadStore, 'due' | 'enter' | 'lookAgain' | 'releaseToNext'>;
  readonly runs: Pick<RunStore, 'load'>;
  readonly children: Pick<Children, 'stop' | 'ended'>;
  readonly log: Log;
  wake(runId: string, summary: string): void;
  abandon(run: Pick<RunJob, 'runId' | 'segment'>): Promise<void>;
  /** There are runs in quarantine and no live worker serves it. */
  onUnservedQuarantine(waiting: number): void;
  onRequeued(): void;
  /** A run or thread was due whose node of Redis cannot be asked. */
  onUnreachable(): void;
}

/** How often a run that is running or queued is checked: as often as the fleet manages, and at least once an hour. */
const shortestMs = 5_000;
const longestMs = 3_600_000;
const perSecond = 200;
/** The same for a suspended run, unless its time comes sooner. What ends its wait has it checked. */
const parkedMs = 86_400_000;
/** A worker that was to resume a run for which there is money may be lost. */
const moneyMs = 600_000;
/** Lock owners without a record that are remembered. */
const maxMissing = 10_000;
/** An entry without a record for this long belongs to a creation that never finished, or to an expired record. */
const orphanMs = 60_000;
const pageSize = 500;
const maxPages = 10;
/** Entries of open runs that each pass lists for a check where they are not. */
const relistSize = 2_000;
const interruption = { drain: false, onPendingApprovals: 'deny', reason: 'a newer message interrupts it' } as const;
const accountName = z.tuple([budgetScope, z.string()]);
/** Checked side by side: the others must not wait for one whose node cannot be reached. */
const lanes = 20;
const maxRequeues = 10;
const openJobStates = ['waiting', 'active', 'delayed', 'prioritized'] as const;
/** How often queues and agents that no worker announces any more are searched for. */
const forgetEveryMs = 3_600_000;

type Verdict = 'forgotten' | 'requeued' | 'fine' | 'unreachable';

/**
 * Finds runs that have not ended and have neither a job nor anything else to wait for, and requeues them. In a healthy fleet
 * there are none: each one is a loss that was repaired, and `doctor` shows the count.
 */
export class Reconciler {
  readonly #deps: ReconcileDeps;
  #offset = 0;
  #threadOffset = 0;
  #forgottenAt = Number.NEGATIVE_INFINITY;
  #missingOwners: ReadonlySet<string> = new Set();
  /** What this pass could not check, because a node of Redis was unreachable. */
  #unreachable: { readonly error: RunError; readonly count: number } | undefined;

  constructor(deps: ReconcileDeps) {
    this.#deps = deps;
  }

  /**
   * One bounded pass over the runs that are due. Runs whose state changed are due soon after, running and queued ones again
   * and again, and suspended ones hardly ever: however many there are, they delay nothing. Returns how many were requeued.
   */
  async pass(): Promise<number> {
    this.#unreachable = undefined;
    let requeued = 0;
    const parts = [
      async () => void (requeued = await this.#checkRuns()),
      () => this.#checkThreads(),
      () => inTime(this.checkQuarantine(), 'check of the quarantine'),
      () => inTime(this.#forgetUnannounced(), 'search for what no worker announces'),
    ];
    const failures: unknown[] = [];
    // Their lists may be on different nodes.
    for (const part of parts) await part().catch((error: unknown) => failures.push(error));
    if (this.#unreachable) {
      const { error: err, count } = this.#unreachable;
      this.#deps.log.warn({ err, count }, 'open runs or threads were not checked: their node of Redis is unreachable');
    }
    if (failures.length > 0) throw failures[0];
    return requeued;
  }

  async #checkRuns(): Promise<number> {
    const { supervision } = this.#deps;
    this.#offset = await supervision.relist(this.#offset, relistSize);
    const everyMs = paceMs(await supervision.dueWithin(longestMs));
    let requeued = 0;
    for (let page = 0; page < maxPages; page++) {
      const due = await supervision.dueRuns(pageSize);
      const again: (OpenRunInfo & { readonly nextMs: number })[] = [];
      await inLanes(due, lanes, async (open) => {
        const verdict = await this.#tryToRepair(open);
        if (verdict === 'requeued') requeued += 1;
        if (verdict === 'fine') again.push({ ...open, nextMs: nextCheck(open, everyMs) });
        if (verdict === 'unreachable') again.push({ ...open, nextMs: nextCheckOfNode(everyMs) });
      });
      await supervision.lookAgain(again);
      if (due.length < pageSize) break;
    }
    return requeued;
  }

  /** A failure with one run, or with its node, must not keep the others from being checked. */
  async #tryToRepair(open: OpenRunInfo): Promise<Verdict> {
    const { log } = this.#deps;
    const { runId, unread } = open;
    if (unread === 'illegible') log.warn({ runId }, 'the record of an open run cannot be read');
    if (unread === 'illegible') return 'fine';
    try {
      if (unread) throw unread;
      return await inTime(this.#repair(open), `repair of open run ${runId}`);
    } catch (err) {
      if (this.#isAway(err)) return 'unreachable';
      log.warn({ err, runId }, 'open run could not be looked after');
      return 'fine';
    }
  }

  #isAway(error: unknown): boolean {
    if (!isUnavailable(error)) return false;
    this.#unreachable = { error: this.#unreachable?.error ?? error, count: (this.#unreachable?.count ?? 0) + 1 };
    this.#deps.onUnreachable();
    return true;
  }

  async #repair({ runId, run, ageMs }: OpenRunInfo): Promise<Exclude<Verdict, 'unreachable'>> {
    const { supervision, queues, log } = this.#deps;
    if (!run || isTerminalStatus(run.status)) {
      if (!run && ageMs < orphanMs) return 'fine';
      if (run) await this.#deps.children.ended(runId);
      await supervision.forget(runId);
      return 'forgotten';
    }
    if (ageMs < settledMs) return 'fine';
    if (run.status === 'suspended') {
      if (run.mayGoOn) this.#deps.wake(runId, 'what it waited for has come');
      else if (isOverdue(run.pending)) this.#deps.wake(runId, 'its time has come');
      else await this.#keepInWaitQueue(runId, run);
      return 'fine';
    }
    const state = await queues.get(run.queue).getJobState(jobIdFor(runId, run.segment));
    if (state !== 'unknown' && state !== 'completed' && state !== 'failed') return 'fine';
    // Only now: a delayed run has a job, and does not enter its thread before its time has come.
    if (run.status === 'queued' && (await this.#waitsForThread(runId, run))) return 'fine';
    log.warn({ runId, status: run.status, jobState: state, requeues: run.requeues }, 'run had no job and is requeued');
    if (run.requeues >= maxRequeues) {
      await this.#deps.abandon({ runId, segment: run.segment });
      await supervision.count('abandoned', 1);
      return 'requeued';
    }
    const segment = await supervision.requeue(runId, run.segment, run.queue);
    if (segment === undefined) return 'fine';
    await queues.add(run.queue, { runId, kind: run.kind, segment });
    await supervision.count('requeued', 1);
    this.#deps.onRequeued();
    return 'requeued';
  }

  /** A run that was taken out of its wait queue and not resumed would wait for ever. One that waits for people is left alone. */
  async #keepInWaitQueue(runId: string, { tenant, pending }: NonNullable<OpenRunInfo['run']>): Promise<void> {
    const money = pending.find(({ kind }) => kind === 'budget');
    const account = money && accountName.safeParse(money.id.split(/:(.*)/s).slice(0, 2));
    if (!money || !account?.success) return;
    const [scope, id] = account.data;
    const needed = Number(money.args?.['neededMicrocents'] ?? 0);
    const fits = await this.#deps.ledger.await({ runId, tenant, agentId: '' }, { scope, id }, needed);
    if (fits) this.#deps.wake(runId, 'there is money for it now');
  }

  /** Then it has no job on purpose: the release of the lock queues it. */
  async #waitsForThread(runId: string, { tenant, thread, agentId }: NonNullable<OpenRunInfo['run']>): Promise<boolean> {
    if (thread === undefined) return false;
    const entered = await this.#deps.threads.enter({ tenant, threadId: thread, runId, agentId });
    return entered.kind === 'waiting';
  }

  /** Repairs threads whose lock owner has ended, or was to be stopped: a worker was lost before it released the lock, or stopped the run. */
  async #checkThreads(): Promise<void> {
    const { threads, supervision, log } = this.#deps;
    this.#threadOffset = await supervision.relistThreads(this.#threadOffset, relistSize);
    const everyMs = paceMs(await supervision.threadsDueWithin(longestMs));
    const missing = new Set<string>();
    for (let page = 0; page < maxPages; page++) {
      const { threads: due, unreachable, more } = await threads.due(pageSize);
      const again: (DueEntry & { readonly nextMs: number })[] = [];
      for (const { error, ...entry } of unreachable)
        if (this.#isAway(error)) again.push({ ...entry, nextMs: nextCheckOfNode(everyMs) });
      await inLanes(due, lanes, async (thread) => {
        const work = this.#checkThread(thread, everyMs, missing);
        const nextMs = await inTime(work, `check of thread ${thread.threadId}`).catch((err: unknown) => {
          if (this.#isAway(err)) return nextCheckOfNode(everyMs);
          log.warn({ err, runId: thread.lockOwner }, 'locked thread could not be checked');
          return Date.now() + everyMs;
        });
        again.push({ ...thread, nextMs });
      });
      await threads.lookAgain(again);
      if (!more) break;
    }
    this.#missingOwners = new Set([...this.#missingOwners, ...missing].slice(-maxMissing));
  }

  /** Returns when the thread is checked again. */
  async #checkThread(
    { tenant, threadId, lockOwner, suspended, interrupted }: DueThread,
    everyMs: number,
    missing: Set<string>,
  ): Promise<number> {
    const { threads, runs, children } = this.#deps;
    const record = await runs.load(lockOwner);
    const now = Date.now();
    if (record && !isTerminalStatus(record.status)) {
      if (interrupted) await children.stop([lockOwner], interruption);
      // The script that ends a wait, or lets a run enter the thread, has it checked.
      return now + (suspended && !interrupted ? parkedMs * (0.75 + Math.random() / 4) : everyMs);
    }
    // A run enters its thread before its record is written: only a second pass proves the loss.
    if (!record) missing.add(lockOwner);
    if (!record && !this.#missingOwners.has(lockOwner)) return now;
    await threads.releaseToNext(tenant, threadId, { runId: lockOwner, epoch: record?.epoch });
    return now + settledMs;
  }

  /** A queue that still has jobs is kept: an operator should see it. */
  async #forgetUnannounced(): Promise<void> {
    const now = performance.now();
    if (now - this.#forgottenAt < forgetEveryMs) return;
    this.#forgottenAt = now;
    const { supervision, queues } = this.#deps;
    for (const queue of await supervision.unannounced())
      if ((await queues.get(queue).getJobCountByTypes(...openJobStates)) === 0) await supervision.forgetQueue(queue);
  }

  /** Has on-demand workers started when runs wait in quarantine and no worker serves it. */
  async checkQuarantine(): Promise<void> {
    const { supervision, queues } = this.#deps;
    const waiting = await queues.get(quarantineQueue).getJobCountByTypes(...openJobStates);
    if (waiting === 0) return;
    const workers = await supervision.liveWorkers();
    if (!workers.some((worker) => worker.queues.includes(quarantineQueue))) this.#deps.onUnservedQuarantine(waiting);
  }
}

/** When runs and threads of an unreachable node are checked again. */
function nextCheckOfNode(everyMs: number): number {
  return Date.now() + Math.max(everyMs, settledMs);
}

/** How often each of so many is checked. */
function paceMs(count: number): number {
  return Math.min(longestMs, Math.max(shortestMs, (count / perSecond) * 1_000));
}

/** When a run that is fine is checked again, in milliseconds since the epoch. */
function nextCheck({ run, ageMs, unpublished }: OpenRunInfo, everyMs: number): number {
  const now = Date.now();
  if (unpublished) return now + settledMs;
  if (run?.status !== 'suspended' || ageMs < settledMs) return now + everyMs;
  if (run.pending.some(({ kind }) => kind === 'budget')) return now + moneyMs;
  const expiries = run.pending.flatMap((item) => (isAboutCall(item) ? [Date.parse(item.expiresAt ?? '')] : []));
  const times = expiries.filter((time) => time + settledMs > now).map((time) => time + settledMs);
  // Spread: those that were suspended together need not be checked together.
  return Math.min(now + parkedMs * (0.75 + Math.random() / 4), ...times);
}

/** Has a call expired so long ago that the timer which should have ended the wait must be gone? */
function isOverdue(pending: readonly PendingItem[]): boolean {
  const before = Date.now() - settledMs;
  return pending.some((item) => isAboutCall(item) && Date.parse(item.expiresAt ?? '') < before);
}

/** Runs the pass on one worker of the fleet at a time, every `everyMs`, by a BullMQ job scheduler. */
export async function scheduleReconciler(
  reconciler: Reconciler,
  options: Omit<QueueSettings, 'worker'> & { readonly queues: RunQueues; readonly everyMs: number },
): Promise<AsyncDisposable> {
  const { connection, bullPrefix, queues, everyMs, lockDurationMs, stalledIntervalMs, log } = options;
  await queues
    .get(maintenanceQueue)
    .upsertJobScheduler(
      'reconcile',
      { every: everyMs },
      { name: 'reconcile', opts: { removeOnComplete: true, removeOnFail: { count: 10 } } },
    );
  const worker = new Worker(maintenanceQueue, () => reconciler.pass(), {
    connection: connection,
    prefix: bullPrefix,
    concurrency: 1,
    lockDuration: lockDurationMs,
    stalledInterval: stalledIntervalMs,
    maxStalledCount: 1_000_000,
    runRetryDelay: 5_000,
  });
  worker.on('error', (error) => log.debug({ err: error }, 'maintenance queue error'));
  worker.on('failed', (_, error) => log.warn({ err: error }, 'reconciling failed'));
  return { [Symbol.asyncDispose]: () => worker.close(true) };
}
