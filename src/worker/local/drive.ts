import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { DecisionInput } from '../../shared/contract/control.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import { tenantsOf } from '../../shared/contract/tenants.ts';
import { childrenOf } from '../../shared/state/run/children/children.ts';
import { CancelWatch } from '../run/signals.ts';
import { FlushTimer } from '../run/writer.ts';
import type { RunDeps } from '../run/run-context.ts';
import type { JobOutcome } from '../run/outcome.ts';
import { runJob } from '../run/run-job.ts';
import type { InMemoryPorts } from './stores/in-memory.ts';
import { within } from '../../shared/base/deadline.ts';
import { pendingViewOf } from '../../shared/contract/decisions.ts';
import type { PendingItem, PendingView } from '../../shared/contract/event.ts';

/** In one process a run waits where it is. */
const longestWaitMs = 86_400_000;
/** Waits that end by themselves. */
const timed: ReadonlySet<string> = new Set(['media', 'retry', 'provider_limit']);

/** A run that dies with this process is gone: no other worker continues it, and no one asks which run killed the process. */
const delivery = {
  jobTry: 1,
  queue: 'in-memory',
  worker: 'this process',
  crashLimit: 1,
  blameLimit: 1,
  activity: 'watched',
} as const;

type OfProcess = 'cancels' | 'flushTimer' | 'maxInlineWaitMs' | 'tenants' | 'wake' | 'stopping';

/** What the runs of one process work with. */
export type LocalDeps = Omit<RunDeps, 'cancels'> & { readonly ports: InMemoryPorts };

/** What a worker has, without a fleet. */
export function localDeps(given: Omit<RunDeps, OfProcess> & { readonly ports: InMemoryPorts }): LocalDeps {
  return {
    ...given,
    // In one process there is no write to save: every delta is an event of its own.
    flushTimer: new FlushTimer(0),
    // No other run waits for this process's slot.
    maxInlineWaitMs: longestWaitMs,
    tenants: tenantsOf({}),
    wake: (runId, summary) => void given.ports.waits.resume(runId, { summary }),
    stopping: () => false,
  };
}

/** Runs the next segment of a run that is queued. */
export async function runSegment({ kind, runId, segment }: RunRecord, deps: LocalDeps): Promise<JobOutcome> {
  using cancels = new CancelWatch(deps.ports);
  const never = new AbortController().signal;
  return await runJob({ v: 1, kind, runId, segment }, delivery, { ...deps, cancels }, never);
}

/** Cancels a run when `signal` is aborted, until disposed. */
export function cancelOn(signal: AbortSignal | undefined, runId: string, ports: InMemoryPorts): Disposable {
  const cancel = () => void ports.cancel(runId, { drain: false, onPendingApprovals: 'deny' });
  if (signal?.aborted) cancel();
  else signal?.addEventListener('abort', cancel, { once: true });
  return { [Symbol.dispose]: () => signal?.removeEventListener('abort', cancel) };
}

/** Runs segment after segment until the run has ended, or waits for what does not come in this process. */
export async function drive(runId: string, deps: LocalDeps, onPending: OnPending | undefined): Promise<RunRecord> {
  for (;;) {
    const before = await deps.ports.runs.load(runId);
    if (before?.status === 'queued') await runSegment(before, deps);
    const record = await deps.ports.runs.load(runId);
    if (!record) throw new RunError('internal', 'the run vanished from memory');
    if (record.status === 'queued') continue;
    if (record.status !== 'suspended' || !(await endWait(record, deps, onPending))) return record;
  }
}

/** Ends the wait of a suspended run, or part of it. False: it keeps waiting. */
async function endWait(record: RunRecord, deps: LocalDeps, onPending: OnPending | undefined): Promise<boolean> {
  const { runId, pending } = record;
  const { ports } = deps;
  const children = childrenOf(record);
  if (children.length > 0) {
    await Promise.all(children.map(async (id) => await drive(id, deps, onPending)));
    for (const id of children) await ports.children.ended(id);
    if ((await ports.runs.load(runId))?.status !== 'suspended') return true;
  }
  if (pending.every(({ kind }) => timed.has(kind))) {
    await untilDue(runId, ports);
    return true;
  }
  const decision = onPending && (await askPeople(record, onPending, ports.clock));
  return decision !== undefined && ports.decide(runId, decision);
}

async function untilDue(runId: string, ports: InMemoryPorts): Promise<void> {
  await resumeDue(ports);
  const record = await ports.runs.load(runId);
  if (record?.status !== 'suspended') return;
  if (record.cancel !== undefined) await ports.waits.resume(runId, { summary: 'a cancel was asked for' });
  else await changeOf(runId, ports);
}

/** Resolves when the run has an event or a cancel, and when its time has come. */
async function changeOf(runId: string, ports: InMemoryPorts): Promise<void> {
  const { waits, deadlines, clock, control } = ports;
  const changed = new AbortController();
  const onChange = (id: string) => void (id === runId && changed.abort());
  using listening = new DisposableStack();
  listening.use(ports.onEvents(onChange));
  listening.use(control.onCancel(onChange));
  const dueMs = Math.min(waits.dueOf(runId) ?? Infinity, deadlines.dueOf(runId) ?? Infinity);
  const leftMs = Math.max(1, dueMs - clock.now());
  await clock.sleep(Math.min(leftMs, longestWaitMs), changed.signal).catch(() => {});
}

async function resumeDue({ waits, deadlines }: InMemoryPorts): Promise<void> {
  for (const due of await waits.due(100)) await waits.resume(due, { summary: 'its time has come' });
  for (const due of await deadlines.due(100))
    if (!(await waits.resume(due, { summary: 'its deadline has passed' }))) await deadlines.clear(due);
}

/** Records a decision about a run. No timer fires between two turns, so this first expires approvals that are due. */
export async function decideHere(runId: string, decision: DecisionInput, by: string | undefined, ports: InMemoryPorts) {
  await resumeDue(ports);
  try {
    ports.decide(runId, decision, by);
  } catch (error) {
    const goesOn = (await ports.runs.load(runId))?.status === 'queued';
    if (!(goesOn && error instanceof RunError && error.code === 'approval_expired')) throw error;
  }
}

/** A person's verdict about one thing that a run waits for. */
export type PersonVerdict =
  | { readonly granted: boolean; readonly reason?: string; readonly updatedArgs?: Record<string, unknown> }
  | { readonly answer: string };

/** Asks a person in this process; `undefined`: no decision now. */
export type OnPending = (item: PendingView, runId: string) => Promise<PersonVerdict | undefined>;

const longestAskMs = 300_000;

/** Asks about everything that people decide. Undefined where nothing was decided; a person who cannot be asked has denied. */
async function askPeople({ runId, pending }: RunRecord, onPending: OnPending, clock: Clock) {
  const items = pending.filter(({ kind }) => kind !== 'budget');
  const verdicts = (await Promise.all(items.map((item) => ask(onPending, item, runId, clock)))).filter(
    (one) => one !== undefined,
  );
  const approvals = verdicts.filter((one) => 'granted' in one);
  const answers = verdicts.filter((one) => 'answer' in one);
  if (verdicts.length === 0) return undefined;
  return { approvals: approvals.length > 0 ? approvals : undefined, answers: answers.length > 0 ? answers : undefined };
}

async function ask(onPending: OnPending, item: PendingItem, runId: string, clock: Clock) {
  const { id: toolCallId } = item;
  const never = new AbortController().signal;
  const settled = await within(longestAskMs, () => onPending(pendingViewOf(item), runId), clock, never);
  if (settled.kind === 'value') {
    const verdict = settled.value as PersonVerdict | undefined;
    return verdict && { toolCallId, ...verdict };
  }
  const { error } = settled.kind === 'threw' ? settled : { error: new Error('no person answered') };
  const reason = error instanceof Error ? error.message.slice(0, 500) : 'no person could be asked';
  return { toolCallId, granted: false, reason };
}
