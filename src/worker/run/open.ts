import type { CancelRequest } from '../../shared/contract/control.ts';
import { deadlineOf, startByOf } from '../../shared/contract/deadline.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { newNonce } from '../../shared/base/ids.ts';
import { budgetCap } from '../../shared/contract/money.ts';
import { isProgram } from '../../shared/contract/orchestration/program-request.ts';
import type { Activity, RunJob, RunRecord } from '../../shared/contract/run.ts';
import type { Tenants } from '../../shared/contract/tenants.ts';
import type { ThreadManifest } from '../../shared/contract/thread/thread.ts';
import type { AgentModels } from '../agents/chain.ts';
import type { Ports } from './ports.ts';
import type { LoadTask } from '../agents/load-task.ts';
import type { Purse } from '../../shared/state/money/accounts.ts';
import type { Children } from '../../shared/state/run/children/children-port.ts';
import type { Claim, OutgoingEvent } from '../../shared/state/run/run-store.ts';
import type { WaitingGroup } from '../turn/contract.ts';
import type { CompactionDesk } from '../turn/compaction/compaction-desk.ts';
import type { CompactionOutcome } from '../turn/compaction/memory.ts';
import { foldJournal, hasOpenCalls, type TurnState } from '../../shared/contract/journal/fold.ts';
import type { MoneyMeter } from '../admission/cashier.ts';
import type { CancelWatch } from './cancel-watch.ts';
import type { FlushTimer } from './flush-timer.ts';
import { effectiveBudget, type LimitCaps } from './limits.ts';
import type { LoadedAgent } from '../agents/load-agents.ts';
import type { NamedFunctions } from '../agents/named-functions.ts';
import { countedAgent } from '../agents/known-names.ts';
import { assignmentOf } from './node-run.ts';
import { Relay } from './relay.ts';
import { logStarted, runLogOf } from './run-log.ts';
import { enterThread, takeThread, type HeldByRun } from './run-thread.ts';
import { RunSignals } from './signals.ts';
import { workedTime } from './worked-time.ts';
import { RunWriter, type EventContext } from './writer.ts';
import type { JobOutcome } from './outcome.ts';
import { childRunOf } from './delegate.ts';
import type { PlannedRun } from '../tools/call.ts';
import type { ToolServices } from '../agents/toolkit.ts';
import type { Watch } from './watch.ts';
import { stampOf } from '../../shared/state/script.ts';

/** What the job layer knows about this delivery of the job. */
export interface Delivery {
  readonly jobTry: number;
  readonly queue: string;
  readonly worker: string;
  /** Crashes, and blame, from which on this queue refuses the run. */
  readonly crashLimit: number;
  readonly blameLimit: number;
  /** `watched` where the process has no other run. */
  readonly activity: Activity;
}

/** What the run room works with. The agents and the chain come from the composition root. */
export interface RunDeps extends AgentModels {
  readonly ports: Ports;
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  readonly flushTimer: FlushTimer;
  readonly cancels: CancelWatch;
  readonly limitCaps: LimitCaps;
  /** Where a program of this process asks for compactions of the agent's runs. */
  readonly desk?: CompactionDesk | undefined;
  /** Counts what came of compactions. */
  readonly countCompaction?: (agentId: string, outcome: CompactionOutcome) => void;
  /** Longest wait for a provider limit or for money that holds a worker, in milliseconds. */
  readonly patienceMs: number;
  /** The budget of each tenant, and its weight where tenants share a provider limit. */
  readonly tenants: Tenants;
  readonly meter?: MoneyMeter;
  /** Is the loss of this worker certainly not the doing of that run? Absent: it never is. */
  readonly isExcused?: (worker: string, runId: string) => Promise<boolean>;
  /** Where runs that may have killed a worker go on. Absent: there is nobody whom they could harm. */
  readonly watch?: Watch;
  /** The name under which a model is counted and limited. Absent: its own. */
  readonly modelName?: (model: string) => string;
  /** What the tools of all runs share. */
  readonly tools: ToolServices;
  /** Absent: there are no tasks. */
  readonly loadTask?: LoadTask | undefined;
  /** The functions that requests name. Absent: there are none. */
  readonly functions?: NamedFunctions;
  /** Queues what follows the answer of a run in a thread. Again changes nothing. Absent: nothing does. */
  readonly dispatchEffects?: (record: RunRecord) => Promise<void>;
  /** Puts a suspended run back into its queue. Returns at once. */
  readonly wake: (runId: string, summary: string) => void;
  /** True once this worker is shutting down: runs stop at their next commit. */
  stopping(): boolean;
}

/** A run that this processor call owns. */
export interface OpenRun extends AsyncDisposable {
  readonly record: RunRecord;
  readonly agent: LoadedAgent | undefined;
  /** Why it cannot be run, when that is known already. */
  readonly refusal?: RunError;
  readonly deniedTools?: readonly string[];
  /** What a node adds to the prompt. */
  readonly append?: string | undefined;
  /** Of its thread. */
  readonly manifest?: ThreadManifest;
  /** The system text, once it is put together. */
  readonly system?: string;
  readonly state: TurnState;
  /** The thread that it continues, held for as long as it goes on. */
  readonly thread?: HeldByRun;
  readonly writer: RunWriter;
  readonly signals: RunSignals;
  readonly signal: AbortSignal;
  readonly clock: Ports['clock'];
  /** How long it has been on a worker so far, over all segments. */
  readonly workedMs: () => number;
  readonly redactor: Ports['redactor'];
  readonly log: Ports['log'];
  readonly waits: Ports['waits'];
  readonly threads: Ports['threads'];
  readonly children: {
    /** Has runs work for this one, once it is suspended. */
    start(planned: readonly PlannedRun[], group?: WaitingGroup): Promise<void>;
    stop: Children['stop'];
  };
  readonly owner: string;
  /** Who pays: what the run was asked for with, whoever goes on with it. */
  readonly purse: Purse;
  /** Resolves when the runs above know all that this one has written. */
  told(): Promise<void>;
  /** Ends the wait of this run, once it is suspended. */
  wake(summary: string): void;
}

/** Claims the run and folds its journal. The claim itself says `run.started` or `run.recovered`. */
export async function openRun(
  job: RunJob,
  delivery: Delivery,
  deps: RunDeps,
  signal: AbortSignal,
): Promise<{ readonly kind: 'open'; readonly run: OpenRun } | JobOutcome> {
  const { ports } = deps;
  const ownership = { runId: job.runId, owner: newNonce() };
  // The record is only known after the claim, so the events that the claim writes get their context from a read before
  // it. Nothing that they say can change in between: agent, thread and ids of a run are fixed at creation.
  const before = await ports.runs.load(job.runId);
  if (!before) return { kind: 'skipped', reason: 'gone' };
  const startBy = startByOf(before);
  if (before.status === 'queued' && startBy !== undefined && startBy <= ports.clock.now()) {
    // Whoever looks at deadlines ends it, without an event that it began.
    await ports.deadlines.at(job.runId, startBy);
    return { kind: 'skipped', reason: 'expired' };
  }
  const entry = await enterThread(before, ports);
  if (entry === 'waiting') return { kind: 'skipped', reason: 'waiting' };
  const context = contextOf(before, delivery);
  const { node } = before.request;
  const { agent, prompt, ...assignment } = await assignmentOf(before.request, deps.agents, signal);
  const refusal = entry instanceof RunError ? entry : assignment.refusal;
  const assigned = { ...assignment, ...(refusal && { refusal }) };
  const event = (body: EventBody): OutgoingEvent => ({
    timestamp: new Date(ports.clock.now()).toISOString(),
    ...context,
    ...body,
  });
  const resumed = before.resumedEpoch !== undefined && before.resumedEpoch === before.epoch;
  const started: EventBody = {
    type: 'run.started',
    kind: before.kind,
    attempt: before.epoch + 1,
    // It let go of its worker to wait, and what it waited for has come: nothing has to be recovered.
    ...(resumed && { resumed }),
    ...(agent && { model: before.request.overrides?.model ?? agent.definition.model }),
  };
  const recovered: EventBody = {
    type: 'run.recovered',
    fromCheckpoint: before.steps,
    ...(before.worker && { previousWorker: before.worker }),
  };
  const { worker } = before;
  const excusedWorker =
    before.status === 'running' && worker && (await deps.isExcused?.(worker, job.runId)) ? worker : undefined;
  const claim = await ports.runs.claim(
    { ...delivery, excusedWorker, runId: job.runId, owner: ownership.owner, segment: job.segment },
    [event(started), ...(node ? [event({ type: 'node.started' })] : []), event({ type: 'agent.start' })],
    [event(resumed ? started : recovered)],
  );
  if (claim.kind === 'crashed_too_often') return claim;
  if (claim.kind !== 'claimed') return { kind: 'skipped', reason: claim.kind };

  const log = runLogOf(ports.log, claim.record, delivery.worker);
  const waitedMs = ports.clock.now() - Date.parse(before.createdAt) - (before.request.delayMs ?? 0);
  const queueWaitMs = Math.max(0, waitedMs);
  const observed = { agentId: countedAgent(before.request, deps), kind: before.kind, ...(!resumed && { queueWaitMs }) };
  logStarted(log, claim, { resumed, queueWaitMs });
  ports.observe(claim.first || resumed ? started : recovered, observed);
  // Whatever fails from here on, nothing of it stays behind in this worker.
  using opening = new DisposableStack();
  const signals = new RunSignals(signal);
  opening.defer(() => signals.dispose());
  const relay = before.parent && new Relay(job.runId, before.parent, { ...ports, log });
  const told = claim.first ? [event(started), event({ type: 'agent.start' })] : [event(resumed ? started : recovered)];
  relay?.add(told, claim.seq - told.length + 1);
  const workedMs = workedTime(claim.record.workedMs ?? 0, ports.clock);
  const writer = new RunWriter({
    ownership,
    context,
    seq: claim.seq,
    ports: { ...ports, log },
    flushTimer: deps.flushTimer,
    kind: claim.record.kind,
    workedMs,
    ...(relay && { onWritten: (events, first) => relay.add(events, first) }),
    onFenced: () => signals.lose('another worker took this run over'),
    onCancel: (cancel) => hearCancel(cancel),
  });
  const hearCancel = (cancel: CancelRequest) => {
    const { drain, onPendingApprovals } = cancel;
    if (signals.cancel(cancel)) writer.emit({ type: 'agent.cancelling', drain, onPendingApprovals });
  };
  opening.defer(() => writer.close());
  opening.use(deps.cancels.watch(job.runId, hearCancel));
  if (claim.cancel && claim.record.isCancelling) signals.cancel(claim.cancel);
  else if (claim.cancel) hearCancel(claim.cancel);
  const deadlineMs = await deadlineFor(claim, agent, writer, ports);
  if (deadlineMs !== undefined) signals.limitDeadline(deadlineMs, deadlineMs - ports.clock.now());
  const record = {
    ...claim.record,
    ...(deadlineMs !== undefined && { deadlineAt: new Date(deadlineMs).toISOString() }),
  };
  const thread = entry instanceof RunError ? undefined : await takeThread(claim.record, prompt, ports);
  if (thread === 'waiting') {
    // It had its turn before, and others came since then.
    await writer.commit({ patch: { status: 'queued' }, release: 'handed_over' });
    return { kind: 'skipped', reason: 'waiting' };
  }
  const past = thread?.past ?? before.parent?.history ?? [];
  const state = foldJournal([...past, { role: 'user', content: prompt }], claim.entries, thread?.session);
  const speaker = state.agentId === undefined ? agent : deps.agents.get(state.agentId);
  if (state.agentId !== undefined) writer.speakFor(state.agentId);
  const purse = purseOf(claim.record, agent, deps);
  if (!claim.first && !resumed) await forfeit(purse, deps);
  // Deltas of a model call that died with its worker are in the log; readers must drop them before the call is repeated.
  if (!claim.first && !resumed && !hasOpenCalls(state) && !isProgram(before.request))
    writer.emit({ type: 'step.reset', stepNumber: state.step + 1, reason: 'recovered' });
  const kept = opening.move();
  return {
    kind: 'open',
    run: {
      record,
      agent: speaker,
      ...assigned,
      // What a node adds is for the agent that it names.
      ...(state.agentId !== undefined && { append: undefined }),
      state,
      ...(thread && { thread: thread.held, manifest: thread.held.manifest }),
      writer,
      signals,
      signal: signals.signal,
      clock: ports.clock,
      workedMs,
      redactor: ports.redactor,
      log,
      waits: ports.waits,
      threads: ports.threads,
      children: {
        start: async (planned, group) => {
          const nowMs = ports.clock.now();
          const runOf = (child: PlannedRun) => childRunOf({ record, purse, state, nowMs }, child);
          const { segment } = record;
          const waits = group && { segment, first: group.first, later: group.later.map(runOf) };
          await ports.children.start(planned.map(runOf), waits);
        },
        stop: async (runIds, cancel) => await ports.children.stop(runIds, cancel),
      },
      owner: ownership.owner,
      purse,
      told: async () => await relay?.drained(),
      wake: (summary) => deps.wake(job.runId, summary),
      [Symbol.asyncDispose]: async () => kept.dispose(),
    },
  };
}

/**
 * When the run is to end at the latest. The agent's own deadline becomes the run's when it begins: as long as no worker has come
 * further than this, and nobody gave the run another one.
 */
async function deadlineFor(
  { entries, record }: Extract<Claim, { kind: 'claimed' }>,
  agent: LoadedAgent | undefined,
  writer: RunWriter,
  { deadlines }: Ports,
): Promise<number | undefined> {
  const own = deadlineOf(record);
  const { deadlineMs } = agent?.definition.limits ?? {};
  const begins = entries.length === 0 && record.deadlineAt === undefined;
  const agents = begins && deadlineMs !== undefined ? Date.parse(record.createdAt) + deadlineMs : undefined;
  if (agents === undefined || (own !== undefined && own <= agents)) return own;
  await deadlines.at(record.runId, agents);
  await writer.commit({ patch: { deadlineAt: new Date(agents).toISOString() } });
  return agents;
}

function contextOf(record: RunRecord, delivery: Delivery): EventContext {
  return { ...stampOf(record), jobAttempt: delivery.jobTry };
}

/** The error of a run whose agent this worker does not have. */
export function unknownAgent(id: string): RunError {
  return new RunError('validation', `this worker has no agent ${id}`);
}

/** Whose money the run spends. */
function purseOf(
  { runId, tenant, request, parent, costMicrocents }: RunRecord,
  agent: LoadedAgent | undefined,
  deps: RunDeps,
): Purse {
  const budget = effectiveBudget(agent?.definition, request);
  const capMicrocents = budgetCap(budget);
  const batch = request.batch ?? parent?.batch;
  return {
    runId,
    tenant,
    agentId: countedAgent(request, deps),
    ...(batch !== undefined && { batch }),
    ...(parent && parent.payers.length > 0 && { payers: parent.payers }),
    ...(budget &&
      capMicrocents !== undefined && {
        run: { capMicrocents, onExceed: budget.onExceed, spentMicrocents: costMicrocents },
      }),
  };
}

/** What the previous holder had reserved when it died may be on the bill. */
async function forfeit(purse: Purse, { ports, wake }: RunDeps): Promise<void> {
  if (!ports.ledger.isCapped(purse)) return;
  for (const runId of await ports.ledger.forfeit(purse)) wake(runId, 'there is money for it now');
}
