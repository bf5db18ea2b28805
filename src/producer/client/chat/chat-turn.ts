import { RunError, thrownOf } from '../../../shared/base/run-error.ts';
import { zeroUsage } from '../../../shared/contract/plain/amounts.ts';
import { isTerminal, isTerminalStatus } from '../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../shared/contract/run.ts';
import type { ResultOptions } from '../options.ts';
import type { RunOperations } from '../run-handle.ts';
import type { ChatTurnProducer } from '../../chat/hooks.ts';
import type { ChatLine } from './chat-line.ts';
import { type OpenTurn, executionNotFound, notFoundAs } from './known-turn.ts';
import { defined } from '../../../shared/base/collections.ts';
import type { DialectEvent } from '../../../shared/dialects/dialect.ts';
import { createProjector } from '../../../shared/dialects/project.ts';
import type { RunEvent } from '../../../shared/contract/event.ts';
import { stoppable } from '../stop-signal.ts';

/** What a turn asks of its client. */
type TurnReads = Pick<RunOperations, 'events' | 'get' | 'result'>;

/** One turn of a chat, on a worker. Needs no closing. */
export class ChatTurn {
  readonly runId: string;
  /** With it any producer and any client of the tenant finds the turn again. */
  readonly executionId: string;
  /** The turn had a run already. */
  readonly attached: boolean;
  /** Its run had even ended. */
  readonly replayed: boolean;
  /** What names the turn, and what was known of it when it was submitted or found. */
  readonly turn: OpenTurn;
  readonly #reads: TurnReads;

  constructor(reads: TurnReads, turn: OpenTurn) {
    this.#reads = reads;
    this.turn = turn;
    this.runId = turn.runId;
    this.executionId = turn.executionId;
    this.attached = turn.attached;
    this.replayed = turn.replayed;
  }

  /**
   * The lines of the turn, from `session.run.started` to `session.run.completed` or `session.run.failed`; resumed with
   * `after`, those that follow. Survives reconnects without gap or repeat. When the events are gone and the result is
   * there, it is replayed from a new `session.run.started` on. Throws as `Millrace.events`; `replay_truncated` only while
   * the run goes on.
   */
  events({ after = 0, signal }: ChatLinesOptions = {}): AsyncIterableIterator<ChatLine> {
    return stoppable([signal], (stop) => follow(this.turn, after, this.#reads, stop));
  }

  /** The text of the answer, once there is one. Throws the error that the run ended with, and `cancelled`. */
  async text(options: Omit<ResultOptions, 'waitMs'> = {}): Promise<string> {
    const { status, text, error } = await this.#reads.result(this.runId, options);
    if (error) throw thrownOf(error);
    if (status === 'cancelled') throw new RunError('cancelled', 'the turn was cancelled');
    return text;
  }

  /** The turn as `handleChatTurn` takes it: without the envelope, and failing when the run fails. */
  producer(): ChatTurnProducer {
    return { stream: this.#body(), finalText: () => this.text() };
  }

  async *#body(): AsyncGenerator<ChatLine, void, undefined> {
    for await (const line of this.events()) {
      if (line.type === 'session.run.failed') await this.text();
      // The error is thrown, and the handler that catches it writes it.
      if (!line.type.startsWith('session.run.') && line.type !== 'error') yield line;
    }
  }
}

export interface ChatLinesOptions {
  /** The `seq` of the last line that the caller has; 0 or absent is the beginning. */
  readonly after?: number;
  /** Ends the iteration, without an error, as soon as it aborts. */
  readonly signal?: AbortSignal;
}

/**
 * A turn in the dialect `ndjson-chat`, each line with its number; ends after `session.run.completed` or
 * `session.run.failed`. It begins with `session.run.started`; resumed, it goes on without one. Where it cannot go on,
 * because the events are gone or belong to another run, the stored result is replayed from `session.run.started` on.
 */
async function* follow(
  turn: OpenTurn,
  after: number,
  reads: TurnReads,
  stop: AbortSignal,
): AsyncGenerator<ChatLine, void, undefined> {
  // A run that did not exist a moment ago has emitted nothing yet: the number is that of an earlier one.
  const from = turn.attached ? after : 0;
  const project = createProjector('ndjson-chat', { tenant: turn.tenantId }, from);
  let begun = false;
  try {
    for await (const event of reads.events(turn.runId, { signal: stop, whole: true })) {
      if (!begun && from === 0) yield startOf(turn);
      begun = true;
      if (isTerminal(event) && from > event.sequenceNumber) yield* replayResult(turn, reads);
      yield* linesOf(project(event), event.sequenceNumber, turn);
    }
  } catch (error) {
    if (begun || !isGone(error)) throw error;
    yield* replayResult(turn, reads, error);
  }
}

/** The stored result. While there is none, the error that kept the events back is thrown. */
async function* replayResult(
  turn: OpenTurn,
  reads: TurnReads,
  why: unknown = executionNotFound(turn.executionId),
): AsyncGenerator<ChatLine, void, undefined> {
  const run = await reads.get(turn.runId).catch(notFoundAs(turn.executionId));
  if (!isTerminalStatus(run.status)) throw why;
  const again = { ...turn, replayed: true };
  const project = createProjector('ndjson-chat', { tenant: turn.tenantId });
  yield startOf(again);
  for (const event of lastEvents(run, turn.sessionId)) yield* linesOf(project(event), event.sequenceNumber, again);
}

function startOf({ runId, executionId, tenantId, sessionId, turnIndex, replayed }: OpenTurn): ChatLine {
  return {
    type: 'session.run.started',
    seq: 0,
    data: defined({ sessionId, tenantId, turnIndex, runId, executionId, replayed: replayed || undefined }),
  };
}

/**
 * Only the last line of an event has its number, those before it the number before: a client that resumes after a break in between
 * gets all of them again, and misses none.
 */
function linesOf(events: readonly DialectEvent[], number: number, { replayed }: OpenTurn): ChatLine[] {
  const shown = events.filter(({ type }) => type !== 'session.run.started');
  return shown.map(({ type, data }, index) => {
    const isEnd = type === 'session.run.completed' || type === 'session.run.failed';
    const seq = index === shown.length - 1 ? number : number - 1;
    return { type, seq, data: isEnd && replayed ? { ...(data as object), replayed } : data };
  });
}

function isGone(error: unknown): boolean {
  return error instanceof RunError && (error.code === 'execution_not_found' || error.code === 'replay_truncated');
}

/** The last events of a run, made of its record: the whole text at once, then how it ended. */
export function lastEvents(run: RunView, sessionId: string): readonly RunEvent[] {
  const { runId, status, lastSequence, costMicrocents, usage = { ...zeroUsage, byModel: {} } } = run;
  const sequenceNumber = Math.max(1, lastSequence);
  const envelope = { v: 1, runId, sessionId, timestamp: run.endedAt ?? run.createdAt } as const;
  const end = { ...envelope, sequenceNumber, usage, costMicrocents };
  if (status === 'completed' || status === 'degraded' || status === 'blocked') {
    const { result = { text: '' }, steps, durationMs = 0 } = run;
    return [
      ...spoken(result.text, { ...envelope, sequenceNumber: Math.max(1, sequenceNumber - 1) }),
      { ...end, type: 'run.completed', status, result, durationMs, steps },
    ];
  }
  if (run.error) return [{ ...end, type: 'run.failed', error: run.error }];
  return [{ ...end, type: 'run.cancelled', drained: false }];
}

function spoken(
  delta: string,
  envelope: Pick<RunEvent, 'v' | 'runId' | 'sessionId' | 'timestamp' | 'sequenceNumber'>,
): RunEvent[] {
  return delta === '' ? [] : [{ ...envelope, type: 'text.delta', delta, model: '' }];
}
