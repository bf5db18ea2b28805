import { jsonOr } from '../../../shared/base/json.ts';
import { problemsOf, firstProblemOf } from '../../../shared/base/problems.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { eventVersion, type EventBody, type RunEvent } from '../../../shared/contract/event.ts';
import { deepFreeze } from '../../../shared/base/json-value.ts';
import {
  taskSettings,
  type TaskOutcome,
  type TaskSettings,
  type TaskSettingsInput,
  type TaskState,
  taskState,
  taskStateVersion,
} from '../../../shared/contract/orchestration/task.ts';
import { checkAdapter, type AgentAdapter, type AnyAdapter, type TaskContext } from '../../agents/adapter.ts';
import { abortedBy, blockedBy, broken, endTask, type TaskEnding } from './ending.ts';
import { EventFeed } from './event-feed.ts';
import { localHost, type TaskHost } from './host.ts';
import type { LedgerRows } from './ledger.ts';
import { answerTask, beginTask, type Stretch } from './loop.ts';
import { readFound, readinessOf } from './answers.ts';
import { RunningTask } from './task-run.ts';
import { z } from 'zod';

/** Where a task runs, and where its ledger row is kept when it has ended. */
export interface TaskPlace {
  /** What is not given runs here and now: see `TaskHost`. */
  readonly host?: Partial<TaskHost>;
  /** In place of the host's signal. */
  readonly signal?: AbortSignal;
  readonly ledger?: {
    readonly rows: LedgerRows;
    /** Of the row. Default: the id of the task. */
    readonly id?: string;
  };
}

export type AgentTaskOptions = TaskSettingsInput & TaskPlace;

/** A task in progress: its events, whose `runId` is the task's id, and its outcome, also when the events are not read. */
export interface TaskStream extends AsyncIterable<RunEvent> {
  readonly result: Promise<TaskOutcome>;
}

const maxFeedEvents = 10_000;

/**
 * Runs a task over an adapter: observe, validate, decide, and act or ask, until the adapter stops, a stop policy or the budget
 * ends it, or the signal aborts. Needs no Redis. A task that asks is `suspended`: `resumeAgentTask` continues from its state.
 * How a task ends is a value; it rejects with `validation` for options that are wrong, and with what a host or the store of
 * ledger rows rejects with.
 *
 * @example
 * const { status, score } = await runAgentTask(adapter, { task: { id: 'inbox-7' }, budget: { maxSteps: 20 } });
 */
export async function runAgentTask<State, Action, Result>(
  adapter: AgentAdapter<State, Action, Result>,
  options: AgentTaskOptions,
): Promise<TaskOutcome> {
  return await begin(adapter, options);
}

/** The same as events while it goes on. Whatever `runAgentTask` throws, `result` rejects with. One reader at a time. */
export function runAgentTaskStream<State, Action, Result>(
  adapter: AgentAdapter<State, Action, Result>,
  options: AgentTaskOptions,
): TaskStream {
  return streamed(0, options, options.task?.id, (place) => begin(adapter, { ...options, ...place }));
}

/**
 * Goes on with a task that asked, here or in another process: the answer is the result of that step. The state may be an
 * object or its JSON text. Throws `run_state_malformed`, `run_state_version_unsupported`, and `validation` for the state of
 * another adapter and for an answer that is blank or longer than 64 KiB.
 */
export async function resumeAgentTask<State, Action, Result>(
  state: unknown,
  answer: string,
  adapter: AgentAdapter<State, Action, Result>,
  place: TaskPlace = {},
): Promise<TaskOutcome> {
  checkAdapter(adapter);
  return await goOn(readTaskState(state, adapter), answer, adapter, place);
}

/** The same as events, whose numbers go on from where the task asked. Throws at once for a state that cannot be read. */
export function resumeAgentTaskStream<State, Action, Result>(
  state: unknown,
  answer: string,
  adapter: AgentAdapter<State, Action, Result>,
  place: TaskPlace = {},
): TaskStream {
  checkAdapter(adapter);
  const saved = readTaskState(state, adapter);
  return streamed(saved.events, place, saved.settings.task.id, (there) =>
    goOn(saved, answer, adapter, { ...place, ...there }),
  );
}

async function begin(adapter: AnyAdapter, { host, signal, ledger, ...given }: AgentTaskOptions): Promise<TaskOutcome> {
  checkAdapter(adapter);
  const settings = settingsOf(given);
  const run = new RunningTask({ settings, adapter, host: hostOf(host, signal), ledgerId: ledger?.id });
  const { id, intent } = run.settings.task;
  await run.emit({ type: 'task.start', taskId: id, ...(intent && { intent }) });
  return await conclude(run, async () => (await notReady(run)) ?? (await beginTask(run)), ledger?.rows);
}

async function goOn(saved: TaskState, answer: string, adapter: AnyAdapter, { host, signal, ledger }: TaskPlace) {
  if (typeof answer !== 'string' || answer.trim() === '' || Buffer.byteLength(answer) > maxAnswerBytes)
    throw new RunError('validation', `the answer must be a text that is not blank, of at most ${maxAnswerBytes} bytes`);
  const run = new RunningTask({ settings: saved.settings, adapter, host: hostOf(host, signal), goOn: saved });
  await run.emit({ type: 'task.start', taskId: run.taskId, resumed: true });
  return await conclude(run, () => answerTask(run, saved.question, answer), ledger?.rows);
}

const maxAnswerBytes = 64 * 1024;

async function conclude(run: RunningTask, work: () => Promise<Stretch>, rows?: LedgerRows): Promise<TaskOutcome> {
  const stretch = await work().catch((error: unknown): TaskEnding => {
    // Anything else is the host's, which alone knows what becomes of the task.
    if (run.host.signal.aborted && error instanceof RunError && error.code === 'cancelled') return abortedBy(run);
    throw error;
  });
  if (!('asked' in stretch)) return await endTask(run, stretch, rows);
  const { asked } = stretch;
  await run.emit({ type: 'task.questions', questions: [asked.question] });
  const state = run.save(asked);
  return { status: 'suspended', taskId: run.taskId, question: asked.question, state };
}

/** Is something missing that has to be known, also after the adapter had its chance to find it? */
async function notReady(run: RunningTask): Promise<TaskEnding | undefined> {
  const { adapter, settings } = run;
  const readiness = await checkReadiness(run);
  if (readiness.ready) return undefined;
  const { missing, questions, acquisitionPlan } = readiness;
  await run.emit({ type: 'task.questions', questions: [...questions] });
  await run.emit({ type: 'task.acquisition', plan: [...acquisitionPlan] });
  if (!adapter.onKnowledgeBlocked) return blockedBy(readiness);
  const work = (context: TaskContext) =>
    adapter.onKnowledgeBlocked?.({ ...context, missing, questions, acquisitionPlan });
  const reply = await run.call('knowledge', work, readFound);
  if (!reply.ok) return broken(reply.failure);
  const { knowledge } = reply.value as { knowledge: Record<string, unknown> };
  if (Object.keys(knowledge).length === 0) return blockedBy(readiness);
  run.knowledge = deepFreeze({ ...settings.knowledge, ...knowledge });
  const again = await checkReadiness(run);
  return again.ready ? undefined : blockedBy(again);
}

async function checkReadiness(run: RunningTask) {
  const readiness = readinessOf(run.settings.task.requirements, run.knowledge);
  await run.emit({ type: 'task.readiness', ready: readiness.ready, missing: [...readiness.missing] });
  return readiness;
}

function settingsOf(given: TaskSettingsInput): TaskSettings {
  const read = taskSettings.safeParse(given);
  if (read.success) return read.data;
  const problems = problemsOf(read.error, 'options');
  throw new RunError('validation', `the task is not valid:\n  ${problems.join('\n  ')}`, { details: problems });
}

function hostOf(host: TaskPlace['host'], signal: TaskPlace['signal']): TaskHost {
  const local = localHost(host);
  return signal ? { ...local, signal } : local;
}

/** Starts a task whose events also go to a reader. `before`: how many of its events were emitted earlier. */
function streamed(
  before: number,
  { host }: TaskPlace,
  taskId: string,
  start: (place: { readonly host: Partial<TaskHost> }) => Promise<TaskOutcome>,
): TaskStream {
  const feed = new EventFeed<RunEvent>(maxFeedEvents);
  const local = localHost(host);
  let sequenceNumber = before;
  const emit = async (body: EventBody) => {
    await local.emit(body);
    const timestamp = new Date().toISOString();
    feed.push({ v: eventVersion, runId: taskId, sequenceNumber: ++sequenceNumber, timestamp, ...body });
  };
  const result = start({ host: { ...local, emit } }).finally(() => feed.end());
  // A caller that only reads events must not get an unhandled rejection; the failure is still in `result`.
  result.catch(() => {});
  return { result, [Symbol.asyncIterator]: () => feed[Symbol.asyncIterator]() };
}

const versioned = z.object({ version: z.int() });

/**
 * Reads the state of a task that waits, as an object or as JSON text. Throws `run_state_malformed`,
 * `run_state_version_unsupported`, and `validation` when the adapter has another id.
 */
function readTaskState(saved: unknown, adapter: AnyAdapter): TaskState {
  const json = typeof saved === 'string' ? jsonOr(saved) : saved;
  if (json === undefined) throw new RunError('run_state_malformed', 'the task state is not JSON');
  const version = versioned.safeParse(json).data?.version;
  if (version !== undefined && version !== taskStateVersion)
    throw new RunError('run_state_version_unsupported', `the task state has version ${version}`);
  const read = taskState.safeParse(json);
  if (!read.success) {
    const fault = firstProblemOf(read.error);
    throw new RunError('run_state_malformed', `the task state cannot be read: ${fault}`, { cause: read.error });
  }
  const { adapterId } = read.data;
  if (adapterId !== adapter.id)
    throw new RunError(
      'validation',
      `the task state is of adapter ${adapterId ?? 'without an id'}, not of ${adapter.id}`,
    );
  return read.data;
}
