import { RunError } from '../../shared/errors.ts';
import type { Message } from '../../shared/message.ts';
import { pairMessages } from '../../shared/pair-messages.ts';
import type { RunRecord, RunStatus } from '../../shared/run.ts';
import type { ContextMessage } from '../../shared/thread-context.ts';
import type { ThreadHold, ThreadRun } from '../../shared/thread-line.ts';
import type { ThreadEntry, ThreadManifest, ThreadSession } from '../../shared/thread.ts';
import type { Ports, Threads } from '../ports.ts';

import type { TurnState } from '../turn/state.ts';
import { summaryMessage } from '../turn/summary-message.ts';
import { threadMessage } from './thread-message.ts';

/** A thread in the hands of a run. */
export interface HeldByRun {
  readonly hold: ThreadHold;
  readonly manifest: ThreadManifest;
  /** Numbers of the entries that the conversation before the first answer came from, the user's message last. */
  readonly numbers: readonly number[];
  /** How many messages of this run were written before it was driven again. */
  readonly logged: number;
}

/** The run's place in its thread, if it has one. */
function placeOf({ tenant, runId, request }: RunRecord): ThreadRun | undefined {
  const { thread: threadId, agent: agentId } = request;
  return threadId === undefined ? undefined : { tenant, threadId, runId, agentId };
}

/**
 * Whether it is the turn of this run in its thread. `waiting`: another run holds it, and will have this one queued when it is
 * over. An error: the thread belongs to another agent.
 */
export async function enterThread(record: RunRecord, threads: Threads): Promise<'turn' | 'waiting' | RunError> {
  const run = placeOf(record);
  if (!run) return 'turn';
  const entered = await threads.enter(run);
  if (entered.kind === 'other_agent') return otherAgent(run, entered.agentId);
  return entered.kind === 'waiting' ? 'waiting' : 'turn';
}

/** The error of a run whose agent may not continue the thread. */
function otherAgent({ threadId, agentId }: ThreadRun, owner: string): RunError {
  return new RunError('validation', `thread ${threadId} belongs to agent ${owner}, not to ${agentId}`);
}

export interface TakenThread {
  readonly held: HeldByRun;
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
  const acquired = await threads.acquire(run);
  if (acquired.kind === 'waiting') return 'waiting';
  if (acquired.kind === 'other_agent') throw otherAgent(run, acquired.agentId);
  const { fence, manifest } = acquired;
  const hold: ThreadHold = { tenant, threadId, runId, fence };
  const at = new Date(clock.now()).toISOString();
  const said: ThreadEntry = { v: 1, t: 'message', runId, at, message: { role: 'user', content: prompt } };
  await written(threads.append(hold, `${runId}:said`, [said]));
  const { summary, messages, lastNumber } = await threads.context(tenant, threadId, runId);
  // Of a run that was driven again some stands there already.
  const own = messages.filter(isOwn(runId));
  const others = messages.filter((message) => !isOwn(runId)(message) && !isEmpty(message));
  const logged = own.filter(({ message, byRuntime: isOurs }) => message.role !== 'user' && !isOurs).length;
  const numbers = [...(summary ? [summary.upTo] : []), ...others.map(({ seq }) => seq), lastNumber + 1];
  const past = [
    ...(summary ? [summaryMessage(summary.text, summary.sensitivity)] : []),
    ...others.map(({ message }) => message),
  ];
  return { held: { hold, manifest, numbers, logged }, past, session: manifest.session };
}

/** An answer without words is there for people; models refuse to be sent one. */
function isEmpty({ message }: ContextMessage): boolean {
  return message.role === 'assistant' && message.parts.every((part) => part.type === 'text' && part.text === '');
}

const isOwn =
  (runId: string) =>
  (message: ContextMessage): boolean =>
    message.runId === runId;

/**
 * Writes what the run has added to its thread, and how it ended. Before the run itself ends: whoever comes next must find it
 * there. The session of the provider is kept after a good turn only. Again changes nothing.
 */
export async function recordTurn(
  thread: HeldByRun,
  own: readonly Message[],
  end: TurnRecord,
  { threads, clock }: Pick<Ports, 'threads' | 'clock'>,
): Promise<void> {
  const { hold } = thread;
  const { runId } = hold;
  const at = new Date(clock.now()).toISOString();
  const { status, state, closing, emptyResponse, durationMs, error } = end;
  const said = new Set(state.steered.values());
  const messages = pairMessages(own).flatMap((message, index): ThreadEntry[] => {
    const kept = threadMessage(message);
    if (!kept) return [];
    // Nobody said these but the person who wrote to the run while it worked, or this system.
    const beside = kept.role === 'user' ? { key: `${runId}:${index}`, ...(!said.has(kept.content) && byRuntime) } : {};
    return [{ v: 1, t: 'message', runId, at, ...beside, message: kept }];
  });
  messages.splice(0, thread.logged);
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
    ...(error !== undefined && { error }),
  };
  const patch = status === 'completed' ? { session: sessionOf(state) } : {};
  const entries = [...messages, ...last, result];
  const lastNumber = await written(threads.append(hold, `${runId}:end`, entries, patch));
  const summary =
    thread.logged > 0
      ? undefined
      : summaryOf(state, [...thread.numbers, ...messages.map((_, n) => lastNumber - entries.length + 1 + n)]);
  if (summary) await written(threads.append(hold, `${runId}:summary`, [{ v: 1, t: 'summary', runId, at, ...summary }]));
}

/** What the next turn begins with in place of all that was summarised. After a handoff it says nothing about the thread. */
function summaryOf({ summarised, handoffs }: TurnState, numbers: readonly number[]) {
  const upTo = summarised && handoffs === 0 ? numbers[summarised.replaced - 1] : undefined;
  if (!summarised || upTo === undefined) return undefined;
  const { text, sensitivity } = summarised;
  return { text, upTo, ...(sensitivity && { sensitivity }) };
}

const byRuntime = { byRuntime: true } as const;

export interface TurnRecord {
  readonly status: Extract<RunStatus, 'completed' | 'degraded' | 'blocked' | 'failed' | 'cancelled'>;
  readonly state: TurnState;
  /** Said in place of an answer. */
  readonly closing?: string;
  /** The model answered, with nothing. */
  readonly emptyResponse?: boolean;
  readonly durationMs: number;
  readonly error?: RunError['code'];
}

function sessionOf({ serving, sessionToken, checkpointToken }: TurnState): ThreadSession | null {
  if (!serving || (sessionToken === undefined && checkpointToken === undefined)) return null;
  return {
    ...serving,
    ...(sessionToken !== undefined && { sessionToken }),
    ...(checkpointToken !== undefined && { checkpointToken }),
  };
}

/** A thread that another worker has taken up is not this worker's any more, and nor is the run. */
async function written(write: ReturnType<Threads['append']>): Promise<number> {
  const appended = await write;
  if (appended.kind === 'ok') return appended.seq;
  throw new RunError('lock_lost', 'another worker holds the thread of this run');
}
