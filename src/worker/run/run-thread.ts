import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { Message } from '../../shared/contract/message.ts';
import type { RunRecord, RunStatus } from '../../shared/contract/run.ts';
import { interruptionBy, refusedIn, type ThreadLock, type ThreadRun } from '../../shared/state/thread/wait-queue.ts';
import { pastOf } from '../../shared/contract/thread/thread-context.ts';
import type { ThreadEntry, ThreadEntryOf, ThreadManifest, ThreadSession } from '../../shared/contract/thread/thread.ts';
import { entriesOfTurn, keptAfter, lastReplaced, withoutLogged } from '../../shared/contract/thread/turn-log.ts';
import type { Ports } from './ports.ts';
import type { ThreadStore } from '../../shared/state/thread/threads.ts';
import { resultsSoFar, type TurnState } from '../../shared/contract/journal/fold.ts';

/** A thread in the hands of a run. */
export interface RunThread {
  readonly hold: ThreadLock;
  readonly manifest: ThreadManifest;
  /** The number of its last entry when the turn of this run began. */
  readonly began: number;
  /** Numbers of the entries that the conversation before the user's message comes from. */
  readonly numbers: readonly number[];
  /** How many words of this run were written before it was driven again. */
  readonly logged: number;
}

/** The run's place in its thread, if it has one. */
function placeOf({ tenant, runId, request }: RunRecord): ThreadRun | undefined {
  const { thread: threadId, agent: agentId } = request;
  return threadId === undefined ? undefined : { tenant, threadId, runId, agentId };
}

/**
 * Whether it is the turn of this run in its thread. `waiting`: another run holds it, and will have this one queued when it is
 * over. An error: the thread belongs to another agent, or the run was not to wait. A delayed run comes to its thread only here:
 * what it does where another run holds that one is done by the worker that gets it first.
 */
export async function turnInThread(
  record: RunRecord,
  { threads, children }: Pick<Ports, 'threads' | 'children'>,
): Promise<'turn' | 'waiting' | RunError> {
  const run = placeOf(record);
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
  readonly held: RunThread;
  /** The conversation before the user's message. */
  readonly past: readonly Message[];
  /** What a provider remembers of it. */
  readonly session: ThreadSession | undefined;
}

/**
 * Takes the thread up for a run that was claimed, with the user's message in it, once however often that happens. Undefined
 * for a run without a thread. Throws `validation` and `lock_lost`.
 */
export async function takeThread(
  record: RunRecord,
  prompt: string,
  { threads, clock }: Pick<Ports, 'threads' | 'clock'>,
): Promise<TakenThread | 'waiting' | undefined> {
  const run = placeOf(record);
  if (!run) return undefined;
  const { tenant, threadId, runId } = run;
  const acquired = await threads.acquire({ ...run, epoch: record.epoch });
  if (acquired.kind === 'waiting') return 'waiting';
  if (acquired.kind === 'stale') throw heldByAnother();
  if (acquired.kind === 'other_agent') throw otherAgent(run, acquired.agentId);
  const { fence, manifest } = acquired;
  const hold: ThreadLock = { tenant, threadId, runId, fence };
  const at = new Date(clock.now()).toISOString();
  const said: ThreadEntry = { v: 1, t: 'message', runId, at, message: { role: 'user', content: prompt } };
  await written(threads.append(hold, `${runId}:said`, [said]));
  const context = await threads.context(tenant, threadId, runId);
  const { messages: past, numbers, logged } = pastOf(context, runId);
  const began = context.lastNumber;
  return { held: { hold, manifest, began, numbers, logged }, past, session: manifest.session };
}

/**
 * Writes what the run has added to its thread, and how it ended. Before the run itself ends: whoever comes next must find it
 * there. The session of the provider is kept after a good turn only. Again changes nothing.
 */
export async function recordTurn(
  thread: RunThread,
  end: TurnRecord,
  { threads, clock }: Pick<Ports, 'threads' | 'clock'>,
): Promise<void> {
  const { hold } = thread;
  const { runId } = hold;
  const at = new Date(clock.now()).toISOString();
  const { status, state, closing, emptyResponse, durationMs, error } = end;
  const messages = [...state.earlier, ...state.own, ...resultsSoFar(state)];
  const said = { messages, handoffs: state.handoffs, steered: new Set(state.steered.values()) };
  const turn = withoutLogged(entriesOfTurn({ runId, at, began: thread.began }, said, 'closed'), thread.logged);
  const last: ThreadEntry[] =
    closing === undefined
      ? []
      : [
          {
            v: 1,
            t: 'message',
            runId,
            at,
            ...(emptyResponse ? { emptyResponse: true as const } : byRuntime),
            message: { role: 'assistant', parts: [{ type: 'text', text: closing }] },
          },
        ];
  const { costMicrocents, step: steps, usage } = state;
  const result: ThreadEntry = {
    v: 1,
    t: 'result',
    runId,
    at,
    status,
    costMicrocents,
    durationMs,
    steps,
    usage,
    error,
  };
  const patch = status === 'completed' ? { session: sessionOf(state) } : {};
  const summary = thread.logged > 0 ? undefined : summaryOf(thread, state, turn.length);
  const summaries: ThreadEntry[] = summary ? [{ v: 1, t: 'summary', runId, at, ...summary }] : [];
  await written(threads.append(hold, `${runId}:end`, [...turn, ...last, result, ...summaries], patch));
}

/** What the next turn begins with in place of all that was summarised. After a handoff it says nothing about the thread. */
function summaryOf(
  { began, numbers }: RunThread,
  { summarised, handoffs, initial, own }: TurnState,
  spoken: number,
): Pick<ThreadEntryOf<'summary'>, 'text' | 'upTo' | 'sensitivity'> | undefined {
  if (!summarised || handoffs.length > 0) return undefined;
  const { text, sensitivity, replaced } = summarised;
  const upTo = lastReplaced({ began, numbers, spoken }, keptAfter(replaced, initial, own));
  return upTo === undefined ? undefined : { text, upTo, sensitivity };
}

const byRuntime = { byRuntime: true } as const;

export interface TurnRecord {
  readonly status: Extract<RunStatus, 'completed' | 'degraded' | 'blocked' | 'failed' | 'cancelled'>;
  readonly state: TurnState;
  /** Said in place of an answer. */
  readonly closing?: string;
  /** The model answered, with nothing. */
  readonly emptyResponse?: boolean | undefined;
  readonly durationMs: number;
  readonly error?: RunError['code'];
}

function sessionOf({ serving, sessionToken, checkpointToken }: TurnState): ThreadSession | null {
  if (!serving || (sessionToken === undefined && checkpointToken === undefined)) return null;
  return { ...serving, sessionToken, checkpointToken };
}

/** A thread that another worker has taken up is not this worker's any more, and nor is the run. */
async function written(write: ReturnType<ThreadStore['append']>): Promise<number> {
  const appended = await write;
  if (appended.kind === 'ok') return appended.seq;
  throw heldByAnother();
}

function heldByAnother(): RunError {
  return new RunError('lock_lost', 'another worker holds the thread of this run');
}
