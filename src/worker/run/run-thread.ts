import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { Message, UserMessage } from '../../shared/contract/message.ts';
import type { RunRecord, RunStatus } from '../../shared/contract/run.ts';
import { interruptionBy, refusedIn, type ThreadLock, type ThreadRun } from '../../shared/state/thread/lock.ts';
import { pastOf } from '../../shared/contract/thread/thread-context.ts';
import { messagesOf } from '../../shared/contract/request/history.ts';
import {
  threadMessage,
  type ThreadEntry,
  type ThreadEntryOf,
  type ThreadManifest,
  type ThreadSession,
} from '../../shared/contract/thread/thread.ts';
import { entriesOfTurn, keptAfter, lastReplaced, withoutLogged } from '../../shared/contract/thread/turn-log.ts';
import { labelsOfRun, readBy, writtenIn } from '../guards/flow/run-labels.ts';
import type { Ports } from './ports.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';
import { resultsSoFar, type TurnState } from '../../shared/contract/journal/fold.ts';

/** A thread that is locked by a run. */
export interface RunThread {
  readonly lock: ThreadLock;
  readonly manifest: ThreadManifest;
  /** The number of its last entry when the turn of this run began. */
  readonly began: number;
  /** Numbers of the entries that the conversation before the user's message comes from. */
  readonly numbers: readonly number[];
  /** How many messages of this run were written before it was redriven. */
  readonly logged: number;
}

/** The run as its thread knows it. Undefined without a thread. */
function threadRunOf({ tenant, runId, request }: RunRecord): ThreadRun | undefined {
  const { thread: threadId, agent: agentId } = request;
  return threadId === undefined ? undefined : { tenant, threadId, runId, agentId };
}

/**
 * Whether it is the turn of this run in its thread. `waiting`: another run has locked it, and queues this one when it ends.
 * An error: the thread belongs to another agent, or the run does not wait. A delayed run enters its thread only here: the
 * worker that gets it first applies its `onBusy`.
 */
export async function turnInThread(
  record: RunRecord,
  { threads, children }: Pick<Ports, 'threads' | 'children'>,
): Promise<'turn' | 'waiting' | RunError> {
  const run = threadRunOf(record);
  if (!run) return 'turn';
  const { delayMs = 0, onBusy = 'queue' } = record.request;
  const arrives = delayMs > 0 && record.epoch === 0 && onBusy !== 'steer';
  const entered = await threads.enter({ ...run, onBusy: arrives ? onBusy : undefined });
  switch (entered.kind) {
    case 'other_agent':
      return otherAgent(run, entered.agentId);
    case 'refused_busy':
    case 'refused_suspended':
      return refusedIn(run, entered);
    case 'waiting':
      if (entered.cancel) await children.stop([entered.lockOwner], interruptionBy(run.runId));
      return 'waiting';
    case 'turn':
    case 'left':
      return 'turn';
    default:
      return assertNever(entered);
  }
}

/** The error of a run whose agent may not continue the thread. */
function otherAgent({ threadId, agentId }: ThreadRun, owner: string): RunError {
  return new RunError('validation', `thread ${threadId} belongs to agent ${owner}, not to ${agentId}`);
}

export interface TakenThread {
  readonly thread: RunThread;
  /** The conversation before the user's message. */
  readonly past: readonly Message[];
  /** The session of a provider with it. */
  readonly session: ThreadSession | undefined;
}

/**
 * Acquires the lock of the thread for a claimed run, and writes the user's message into it, once. Undefined for a run without
 * a thread. Throws `validation` and `lock_lost`.
 */
export async function takeThread(
  record: RunRecord,
  asked: Pick<UserMessage, 'content' | 'files'>,
  { threads, clock }: Pick<Ports, 'threads' | 'clock'>,
): Promise<TakenThread | 'waiting' | undefined> {
  const run = threadRunOf(record);
  if (!run) return undefined;
  const { tenant, threadId, runId } = run;
  const acquired = await threads.acquire({ ...run, epoch: record.epoch });
  if (acquired.kind === 'waiting') return 'waiting';
  if (acquired.kind === 'stale') throw lockLost();
  if (acquired.kind === 'other_agent') throw otherAgent(run, acquired.agentId);
  const { fence, manifest } = acquired;
  const lock: ThreadLock = { tenant, threadId, runId, fence };
  const at = new Date(clock.now()).toISOString();
  const { content, files } = asked;
  const message = { role: 'user' as const, content, ...(files && { files }) };
  const question: ThreadEntry = { v: 1, t: 'message', runId, at, message };
  const before = saidBefore(record, at);
  const last = await written(threads.append(lock, `${runId}:input`, [...before, question]));
  const context = await threads.context(tenant, threadId, runId);
  const { messages: past, numbers, logged } = pastOf(context, runId);
  const began = context.lastNumber;
  // A redriven run has written it before, and finds it in the thread.
  const isNew = before.length > 0 && last > began + before.length;
  if (!isNew) return { thread: { lock, manifest, began, numbers, logged }, past, session: manifest.session };
  const added = before.map((_, index) => began + 1 + index);
  const thread = { lock, manifest, began: began + before.length, numbers: [...numbers, ...added], logged };
  return { thread, past: [...past, ...before.map(({ message }) => message)], session: undefined };
}

/** What the caller says was said before the input, each message once. */
function saidBefore({ runId, request: { history = [] } }: RunRecord, at: string): ThreadEntryOf<'message'>[] {
  return messagesOf(history).flatMap((said, index) => {
    const message = threadMessage(said);
    const entry = { v: 1, t: 'message', runId, at, key: `${runId}:before:${index}`, byCaller: true } as const;
    return message ? [{ ...entry, message }] : [];
  });
}

/**
 * Writes what the run has added to its thread, and how it ended. Before the run itself ends: the next run must find it there.
 * The session of the provider is kept after a completed turn only. Idempotent.
 */
export async function recordTurn(
  thread: RunThread,
  end: TurnRecord,
  { threads, clock }: Pick<Ports, 'threads' | 'clock'>,
): Promise<void> {
  const { lock } = thread;
  const { runId } = lock;
  const at = new Date(clock.now()).toISOString();
  const { status, state, closing, emptyResponse, durationMs, error } = end;
  const messages = [...state.earlier, ...state.own, ...resultsSoFar(state)];
  const added = { messages, handoffs: state.handoffs, steered: new Set(state.steered.values()) };
  const turn = withoutLogged(entriesOfTurn({ runId, at, began: thread.began }, added, 'closed'), thread.logged);
  const mark = emptyResponse ? { emptyResponse: true as const } : { byRuntime: true as const };
  const message = { role: 'assistant' as const, parts: [{ type: 'text' as const, text: closing ?? '' }] };
  const last: ThreadEntry[] = closing === undefined ? [] : [{ v: 1, t: 'message', runId, at, ...mark, message }];
  const { costMicrocents, step: steps, usage } = state;
  const result: ThreadEntry = { v: 1, t: 'result', runId, at, status, costMicrocents, durationMs, steps, usage, error };
  const patch = status === 'completed' ? { session: sessionOf(state) } : {};
  const summary = thread.logged > 0 ? undefined : summaryOf(thread, state, turn.length);
  const summaries: ThreadEntry[] = summary ? [{ v: 1, t: 'summary', runId, at, ...summary }] : [];
  await written(threads.append(lock, `${runId}:end`, [...turn, ...last, result, ...summaries], patch));
}

/**
 * The summary that the next turn begins with, with a label for all that follows it, too: what that repeats may come from a
 * result that the summary replaces. None after a handoff: that summary is of what the filter
 * let through.
 */
function summaryOf({ began, numbers }: RunThread, state: TurnState, spoken: number) {
  const { summarised, handoffs, initial, own } = state;
  if (!summarised || handoffs.length > 0) return undefined;
  const { text, sensitivity, replaced } = summarised;
  const upTo = lastReplaced({ began, numbers, spoken }, keptAfter(replaced, initial, own));
  if (upTo === undefined) return undefined;
  const flow = labelsOfRun(readBy(state), []).of(text, writtenIn([...initial, ...own].slice(replaced)));
  return { text, upTo, sensitivity, flow };
}

export interface TurnRecord {
  readonly status: Extract<RunStatus, 'completed' | 'degraded' | 'blocked' | 'failed' | 'cancelled'>;
  readonly state: TurnState;
  /** Written in place of an answer. */
  readonly closing?: string;
  /** The answer of the model is empty. */
  readonly emptyResponse?: boolean | undefined;
  readonly durationMs: number;
  readonly error?: RunError['code'] | undefined;
}

function sessionOf({ serving, sessionToken, checkpointToken }: TurnState): ThreadSession | null {
  if (!serving || (sessionToken === undefined && checkpointToken === undefined)) return null;
  return { ...serving, sessionToken, checkpointToken };
}

/** Throws `lock_lost` when the thread has another lock owner: then the run has another worker, too. */
async function written(write: ReturnType<ThreadStore['append']>): Promise<number> {
  const appended = await write;
  if (appended.kind === 'ok') return appended.seq;
  throw lockLost();
}

function lockLost(): RunError {
  return new RunError('lock_lost', 'another worker has locked the thread of this run');
}
