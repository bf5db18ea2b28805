import { defined } from '../../../shared/base/defined.ts';
import { z } from 'zod';
import type { DialectEvent } from '../../../shared/dialects/dialect.ts';
import { createProjector } from '../../../shared/dialects/project.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { isTerminal, type RunEvent, eventVersion } from '../../../shared/contract/event.ts';
import { isTerminalStatus, type RunView } from '../../../shared/contract/run.ts';
import type { EventsOptions } from '../options.ts';
import { stoppable } from '../stop.ts';
import { executionNotFound, isUnknownRun, type OpenTurn } from './open-turn.ts';
import { zeroUsage } from '../../../shared/contract/money.ts';

/** One line of a turn that is a run. */
export const chatLine = z.object({
  type: z.string(),
  seq: z
    .int()
    .min(0)
    .optional()
    .describe(
      'Number of the event that it comes from: resume after it. Absent where there is nothing to resume after.',
    ),
  data: z.unknown().optional(),
});
export type ChatLine = Readonly<z.infer<typeof chatLine>>;

/** What the lines of a turn are read with. */
export interface TurnReads {
  events(runId: string, options: EventsOptions): AsyncIterable<RunEvent>;
  get(runId: string): Promise<RunView>;
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
export function chatLines(
  turn: OpenTurn,
  { after = 0, signal }: ChatLinesOptions,
  reads: TurnReads,
): AsyncIterableIterator<ChatLine> {
  return stoppable([signal], (stop) => follow(turn, after, reads, stop));
}

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
    for await (const event of reads.events(turn.runId, { signal: stop })) {
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
  const run = await reads.get(turn.runId).catch((error: unknown) => {
    throw isUnknownRun(error) ? executionNotFound(turn.executionId) : error;
  });
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
  const envelope = { v: eventVersion, runId, sessionId, timestamp: run.endedAt ?? run.createdAt } as const;
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
