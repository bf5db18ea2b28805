import type { Clock } from '../../shared/base/clock.ts';
import { newNonce } from '../../shared/base/ids.ts';
import type { Log } from '../../shared/base/log.ts';
import type { CancelRequest } from '../../shared/contract/control.ts';
import { deadlineOf, startByOf } from '../../shared/contract/deadline.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import { foldJournal, hasOpenCalls, type TurnState } from '../../shared/contract/journal/fold.ts';
import { messagesOf } from '../../shared/contract/request/history.ts';
import {
  filesOfRun,
  isOrchestrated,
  workOf,
  type Activity,
  type RunJob,
  type RunRecord,
} from '../../shared/contract/run.ts';
import type { Accounts } from '../../shared/state/money/accounts.ts';
import type { Claim } from '../../shared/state/run/claim.ts';
import { type OutgoingEvent, stampOf } from '../../shared/state/script.ts';
import { clean, unlabelled } from '../../shared/contract/flow-label.ts';
import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import type { UserMessage } from '../../shared/contract/message.ts';
import { countedAgent, wrongVersion } from '../agents/known-names.ts';
import type { RunDeps, OpenRun } from './run-context.ts';
import { assignmentOf, type Assignment } from './node-run.ts';
import { filesFor, lookForFiles, readerOf } from './input-files.ts';
import type { JobOutcome } from './outcome.ts';
import { accountsOfRun, writeOff } from './payment.ts';
import type { Ports } from './ports.ts';
import { relayFor } from './relay.ts';
import { logStarted, runLogOf, type RunStart } from './run-log.ts';
import { turnInThread, takeThread, type TakenThread } from './run-thread.ts';
import { RunSignals } from './signals.ts';
import { bytesOf, RunWriter, type EventContext } from './writer.ts';

/** The worker that claims a run. */
export interface Taker {
  readonly queue: string;
  readonly worker: string;
  /** `watched` where the process has no other run. */
  readonly activity: Activity;
}

/** What the job layer knows about this delivery of the job. */
export interface Delivery extends Taker {
  readonly jobTry: number;
  /** Crashes, and blame, from which on this queue refuses the run. */
  readonly crashLimit: number;
  readonly blameLimit: number;
}

/** A taker without a job comes after every delivery, and takes the run however often it has crashed. */
const last = Number.MAX_SAFE_INTEGER;
const withoutJob = { jobTry: last, crashLimit: last, blameLimit: last };

type OpenDeps = Pick<
  RunDeps,
  | 'ports'
  | 'agents'
  | 'functions'
  | 'flushTimer'
  | 'cancels'
  | 'suspects'
  | 'wake'
  | 'limitCaps'
  | 'metrics'
  | 'tools'
  | 'definitionOf'
>;

/** Claims the run and folds its journal. The claim itself emits `run.started` or `run.recovered`. */
export async function openRun(
  job: Pick<RunJob, 'runId' | 'segment'>,
  delivery: Delivery | Taker,
  deps: OpenDeps,
  signal: AbortSignal,
): Promise<{ readonly kind: 'open'; readonly run: OpenRun } | JobOutcome> {
  const found = await load(job.runId, deps, signal);
  if (found.kind === 'skipped') return found;
  const claimed = await claim(found, job, delivery, deps);
  if (claimed.kind !== 'claimed') return claimed;
  // If a later step fails, the stack closes what was opened.
  using opening = new DisposableStack();
  const parts = openParts(found, claimed, delivery, deps, signal, opening);
  announce(found, claimed, parts.log, deps);
  const record = await withDeadline(claimed, found.assignment, parts, deps.ports);
  const { mayEnter } = found;
  const input = mayEnter && 'jobTry' in delivery ? await inputOf(found, claimed, record, parts, deps) : {};
  const assignment = { ...found.assignment, ...input };
  const question = questionOf(claimed.record, assignment);
  const thread = mayEnter ? await takeThread(claimed.record, question, deps.ports) : undefined;
  if (thread === 'waiting') {
    // It had the lock before its wait, and other runs are before it now.
    await parts.writer.commit({ patch: { status: 'queued' }, release: 'handed_over' });
    return skipped('waiting');
  }
  if (thread) {
    deps.metrics?.threadLocks(1);
    opening.defer(() => deps.metrics?.threadLocks(-1));
  }
  const folded = fold(claimed, assignment, thread, question, deps);
  await lookForFilesOf(folded.state, record, parts.writer, deps);
  if (folded.state.agentId !== undefined) parts.writer.setActiveAgent(folded.state.agentId);
  const accounts = accountsOfRun(claimed.record, assignment.agent, deps);
  if (claimed.start === 'recovered' || claimed.start === 'redriven')
    await recover(folded.state, claimed, accounts, parts.writer, deps);
  const kept = opening.move();
  const run = { ...parts, ...folded, record, thread: thread?.thread, accounts };
  return { kind: 'open', run: { ...run, [Symbol.asyncDispose]: async () => kept.dispose() } };
}

type Skipped = Extract<JobOutcome, { kind: 'skipped' }>;

function skipped(reason: Skipped['reason']): Skipped {
  return { kind: 'skipped', reason };
}

/** What is known of a run before its claim. */
interface Found {
  readonly kind: 'found';
  readonly record: RunRecord;
  readonly assignment: Assignment;
  /** False: its thread refuses it. */
  readonly mayEnter: boolean;
  /** Why it is to go on, where no worker was lost and none has handed it over: its wait ended, or it was redriven. */
  readonly goesOn: 'resumed' | 'redriven' | undefined;
}

/**
 * Reads the run, and enters its thread. The events that the claim writes are made from this record, before the claim answers
 * with its own. Agent, thread and ids of a run are fixed at creation, so they cannot differ.
 */
async function load(runId: string, { ports, agents }: OpenDeps, signal: AbortSignal): Promise<Found | Skipped> {
  const record = await ports.runs.load(runId);
  if (!record) return skipped('gone');
  const startBy = startByOf(record);
  if (record.status === 'queued' && startBy !== undefined && startBy <= ports.clock.now()) {
    // `watchDeadlines` ends it, without an event that it started.
    await ports.deadlines.at(runId, startBy);
    return skipped('expired');
  }
  const entry = await turnInThread(record, ports);
  if (entry === 'waiting') return skipped('waiting');
  const assigned = await assignmentOf(record.request, agents, signal);
  const { epoch, resumedEpoch, redrivenEpoch } = record;
  const goesOn = redrivenEpoch === epoch ? 'redriven' : resumedEpoch === epoch ? 'resumed' : undefined;
  const mayEnter = entry === 'turn';
  // A run that has begun goes on with the agent that there is: what it has done cannot be done again.
  const wrong = record.epoch === 0 ? wrongVersion(record.request, assigned.agent?.definition) : undefined;
  const refusal = mayEnter ? (wrong ?? assigned.refusal) : entry;
  const assignment = { ...assigned, refusal };
  return { kind: 'found', record, assignment, mayEnter, goesOn };
}

interface Claimed extends Extract<Claim, { kind: 'claimed' }> {
  readonly owner: string;
  readonly start: RunStart;
  /** What the claim has written, `run.started` or `run.recovered` first. */
  readonly events: readonly OutgoingEvent[];
}

/** Makes this processor call the owner of the run, in place of the worker that had it. */
async function claim(
  { record, assignment: { agent }, goesOn }: Found,
  { runId, segment }: Pick<RunJob, 'runId' | 'segment'>,
  delivery: Delivery | Taker,
  { ports, suspects, definitionOf }: OpenDeps,
): Promise<Claimed | JobOutcome> {
  const context = contextOf(record, delivery);
  const event = (body: EventBody): OutgoingEvent => ({
    timestamp: new Date(ports.clock.now()).toISOString(),
    ...context,
    ...body,
  });
  const { kind, epoch, request, worker } = record;
  const model = agent && (request.overrides?.model ?? agent.definition.model);
  const about = { type: 'run.started', kind, attempt: epoch + 1, worker: delivery.worker } as const;
  const resumed = goesOn === 'resumed' ? true : undefined;
  const redriven = goesOn === 'redriven' ? true : undefined;
  const started = event({ ...about, resumed, redriven, model });
  const recovered = event({
    type: 'run.recovered',
    fromCheckpoint: record.steps,
    previousWorker: worker,
    worker: delivery.worker,
    lost: record.held === '1' ? true : undefined,
  });
  const node = workOf(request).kind === 'node' ? [event({ type: 'node.started' })] : [];
  const opening = [started, ...node, event({ type: 'agent.start' })];
  const going = [goesOn ? started : recovered];
  const wasLost = record.status === 'running' && worker !== undefined;
  const excusedWorker = wasLost && (await suspects?.isExcused(worker, runId)) ? worker : undefined;
  const owner = newNonce();
  const definition = agent && definitionOf?.(agent);
  const claim = { ...withoutJob, ...delivery, excusedWorker, definition, runId, owner, segment };
  const answer = await ports.runs.claim(claim, opening, going);
  if (answer.kind === 'crashed_too_often') return answer;
  if (answer.kind !== 'claimed') return skipped(answer.kind);
  const start = answer.first ? 'first' : (goesOn ?? 'recovered');
  return { ...answer, owner, start, events: answer.first ? opening : going };
}

/** Counts and logs that the run began here. */
function announce({ record, goesOn }: Found, claimed: Claimed, log: Log, { ports, ...known }: OpenDeps): void {
  const waitedMs = ports.clock.now() - Date.parse(record.createdAt) - (record.request.delayMs ?? 0);
  const queueWaitMs = goesOn ? undefined : Math.max(0, waitedMs);
  const [begun] = claimed.events;
  if (begun) ports.observe(begun, { agentId: countedAgent(record.request, known), kind: record.kind, queueWaitMs });
  logStarted(log, claimed, Math.max(0, waitedMs));
}

type Parts = Pick<OpenRun, 'writer' | 'signals' | 'log' | 'owner' | 'workedMs' | 'relay' | 'equipment'>;

/** The signals, the writer and the relay of a run that this process owns, until `opening` is closed. */
function openParts(
  { record: before }: Found,
  { record, seq, owner, cancel, events, entries }: Claimed,
  delivery: Delivery | Taker,
  { ports, flushTimer, cancels, limitCaps: { maxJournalBytes } }: OpenDeps,
  signal: AbortSignal,
  opening: DisposableStack,
): Parts {
  const { runId } = record;
  const log = runLogOf(ports.log, record, delivery.worker);
  const signals = new RunSignals(signal, ports.clock);
  opening.defer(() => signals.dispose());
  const relay = before.parent && relayFor(runId, before.parent, { ...ports, log });
  relay?.add(events, seq - events.length + 1);
  const workedMs = workedTime(record.workedMs ?? 0, ports.clock);
  const journalBytes = bytesOf(entries);
  const onJournal = (bytes: number) => {
    if (bytes > maxJournalBytes) signals.limitJournal(maxJournalBytes);
  };
  onJournal(journalBytes);
  const writer = new RunWriter({
    ownership: { runId, owner, tenant: record.tenant },
    context: contextOf(before, delivery),
    seq,
    ports: { ...ports, log },
    flushTimer,
    kind: record.kind,
    journalBytes,
    onJournal,
    workedMs,
    onWritten: (written, first) => relay?.add(written, first),
    onFenced: () => signals.lose('another worker took this run over'),
    onCancel: (request) => takeCancel(request),
  });
  const takeCancel = (request: CancelRequest) => {
    const { drain, onPendingApprovals } = request;
    if (signals.cancel(request)) writer.emit({ type: 'agent.cancelling', drain, onPendingApprovals });
  };
  opening.defer(() => writer.close());
  opening.use(cancels.watch(runId, takeCancel));
  if (cancel && record.isCancelling) signals.cancel(cancel);
  else if (cancel) takeCancel(cancel);
  return { writer, signals, log, owner, workedMs, relay, equipment: { promptChars: 0 } };
}

/**
 * How long a run has been on a worker, in whole milliseconds: what earlier segments have recorded, and this one since its
 * claim. A segment that crashed counts up to its last commit, which is all that is known of it. Time without a worker (in a
 * queue, suspended, between a crash and the next claim) is not in it.
 */
function workedTime(beforeMs: number, clock: Pick<Clock, 'monotonic'>): () => number {
  const claimedMs = clock.monotonic();
  return () => beforeMs + Math.max(0, Math.round(clock.monotonic() - claimedMs));
}

/** The record with its deadline, which the signals of the run enforce from now on. */
async function withDeadline(
  { entries, record }: Claimed,
  { agent }: Assignment,
  { writer, signals }: Parts,
  { deadlines, clock }: Ports,
): Promise<RunRecord> {
  const own = deadlineOf(record);
  const { deadlineMs } = agent?.definition.limits ?? {};
  // The agent's own deadline becomes the run's when it begins: as long as no worker has written an entry, and the run has no
  // other deadline.
  const begins = entries.length === 0 && record.deadlineAt === undefined;
  const agents = begins && deadlineMs !== undefined ? Date.parse(record.createdAt) + deadlineMs : Infinity;
  const atMs = Math.min(own ?? Infinity, agents);
  if (atMs === Infinity) return record;
  const deadlineAt = new Date(atMs).toISOString();
  if (atMs !== own) {
    await deadlines.at(record.runId, atMs);
    await writer.commit({ patch: { deadlineAt } });
  }
  signals.limitDeadline(atMs, atMs - clock.now());
  return { ...record, deadlineAt };
}

/** The state of the run, and its active agent. What a node adds to the prompt is for the agent that it names. */
function fold(
  { record, entries }: Claimed,
  assignment: Assignment,
  thread: TakenThread | undefined,
  question: UserMessage,
  { agents }: Pick<OpenDeps, 'agents'>,
): Pick<OpenRun, 'state' | 'assignment'> {
  const past = thread?.past ?? record.parent?.history ?? messagesOf(record.request.history ?? []);
  const state = foldJournal([...past, question], entries, thread?.session);
  if (state.agentId === undefined) return { state, assignment };
  return { state, assignment: { ...assignment, agent: agents.get(state.agentId), append: undefined } };
}

/** What the run is asked. That of a child is by the model of its parent: it vouches for nothing as soon as that had read others. */
function questionOf(
  record: RunRecord,
  { prompt: content, agent, files = filesOfRun(record) }: Assignment,
): UserMessage {
  const { flow = unlabelled } = record.parent ?? { flow: clean };
  const isOwn = flow.sources.length === 0 && flow.sensitivity === undefined;
  const trust = agent?.definition.inputFiles?.trust;
  // What a template makes of the input has other places.
  const isWhole = content === record.request.input;
  const placed = files?.map((file) => defined({ ...file, at: isWhole ? file.at : content.length, trust }));
  return { role: 'user', content, ...(placed && { files: placed }), ...(!isOwn && { flow }) };
}

/** The files of the input; or why they cannot be had, which the run fails with. */
async function inputOf(
  { assignment }: Found,
  { record: { request } }: Claimed,
  record: RunRecord,
  { writer, signals: { signal } }: Parts,
  { ports, tools: { inputUrls: urls = { mode: 'refuse' } } }: OpenDeps,
): Promise<Pick<Assignment, 'files' | 'refusal'>> {
  if (!request.files || assignment.refusal || signal.aborted) return {};
  try {
    const files = await filesFor(record, writer, { urls, ports, signal });
    return files instanceof RunError ? { refusal: files } : { files };
  } catch (error) {
    // What has stopped it says so itself, where the run goes on.
    if (signal.aborted) return {};
    throw error;
  }
}

/** Once for each file of the conversation. */
async function lookForFilesOf(
  { begun, earlier, own, messages }: TurnState,
  record: RunRecord,
  writer: Pick<RunWriter, 'emit'>,
  { ports, tools }: Pick<OpenDeps, 'ports' | 'tools'>,
): Promise<void> {
  const all = [...begun, ...earlier, ...own, ...messages];
  const gone = await lookForFiles(all, readerOf(record, tools), ports);
  for (const { name, mediaType } of gone) writer.emit({ type: 'input.file_expired', name, mediaType });
}

/** Writes off the reservations of a lost worker, and has readers drop its unfinished answer. */
async function recover(
  state: TurnState,
  { start, record }: Pick<Claimed, 'start' | 'record'>,
  accounts: Accounts,
  writer: RunWriter,
  deps: OpenDeps,
) {
  await writeOff(accounts, deps);
  // Deltas of the lost model call are in the log; readers must drop them before the call is repeated. A redrive begins a new log.
  if (start === 'recovered' && !hasOpenCalls(state) && !isOrchestrated(workOf(record.request)))
    writer.emit({ type: 'step.reset', stepNumber: state.step + 1, reason: 'recovered' });
}

function contextOf(record: RunRecord, delivery: Delivery | Taker): EventContext {
  return { ...stampOf(record), jobAttempt: 'jobTry' in delivery ? delivery.jobTry : undefined };
}
