import type { EventOf, RunEvent } from '../../contract/event.ts';
import type { Attempt } from '../../contract/journal/journal.ts';

/** Counters of a bucket, and what each grows by. `max:` is the largest of its values, `agent:ended:NAME` a counter of an agent. */
export type Increments = ReadonlyMap<string, number>;

/** What only the record of a run knows about its event. */
export interface CountedRun {
  readonly tenant: string;
  /** When it could have been begun: it was accepted, and its delay was over. */
  readonly readyAtMs: number;
  /** When a worker began it first. Not a number: none has. */
  readonly startedAtMs: number;
  /** What it has used up to its last end, without what its children have. */
  readonly used: Used;
  /** When it was redriven last. Undefined: never. */
  readonly redriven: Redriven | undefined;
}

export interface Used {
  readonly attempts: readonly Attempt[];
  readonly toolCalls: number;
  readonly toolErrors: number;
}

/** The number of its last event before that, and what it had used by then, which is counted with the end before. */
export interface Redriven {
  readonly sequenceNumber: number;
  readonly attempts: number;
  readonly toolCalls: number;
  readonly toolErrors: number;
}

type Ended = EventOf<'run.completed'> | EventOf<'run.failed'> | EventOf<'run.cancelled'>;

/** What a lifecycle event adds to the bucket of its time. Nothing for a wait, its end, and a start after it. */
export function incrementsOf(event: RunEvent, run: CountedRun): Increments {
  switch (event.type) {
    case 'run.queued':
      return new Map([['queued', 1]]);
    case 'run.started': {
      if (event.resumed) return new Map();
      const waitMs = Math.max(0, Math.round(Date.parse(event.timestamp) - run.readyAtMs));
      return nonZero({ started: 1, queueWaitMs: waitMs, 'max:queueWaitMs': waitMs });
    }
    case 'run.completed':
    case 'run.failed':
    case 'run.cancelled':
      return endOf(event, run);
    default:
      return new Map();
  }
}

/**
 * What the bucket of an earlier time has too much from this event on: the figures of an agent have a run once, as it ended last, so the
 * failure of one that is redriven leaves them. Undefined: nothing.
 */
export function takenBackBy(event: RunEvent, { startedAtMs }: CountedRun): TakenBack | undefined {
  if (event.type !== 'run.queued' || event.failedAt === undefined) return undefined;
  const atMs = Date.parse(event.failedAt);
  const durationMs = Number.isNaN(startedAtMs) ? 0 : Math.max(0, atMs - startedAtMs);
  return { atMs, counters: nonZero(under('agent', event.agentId ?? '', { ended: 1, failed: 1, durationMs })) };
}

export interface TakenBack {
  readonly atMs: number;
  readonly counters: Increments;
}

function endOf(event: Ended, run: CountedRun): Increments {
  const status = event.type === 'run.completed' ? event.status : event.type.slice('run.'.length);
  const isFailed = event.type === 'run.failed';
  const { attempts, toolCalls, toolErrors } = usedFor(event, run);
  const spent = spentOn(attempts);
  const work = {
    ended: 1,
    failed: isFailed ? 1 : 0,
    durationMs: event.durationMs ?? 0,
    toolCalls,
    toolErrors,
    inputTokens: spent.inputTokens,
    outputTokens: spent.outputTokens,
    costMicrocents: spent.costMicrocents,
  };
  const byAgent = under('agent', event.agentId ?? '', work);
  const byModel = [...Map.groupBy(attempts, ({ model }) => model)].map(([model, of]) =>
    under('model', model, spentOn(of)),
  );
  const errors = isFailed ? { [`error:${event.error.code}`]: 1 } : {};
  return nonZero(Object.assign({ ...work, [`endedBy:${status}`]: 1, ...errors }, byAgent, ...byModel));
}

/** What belongs to this end: that before a redrive has been counted with the end before it. */
function usedFor({ sequenceNumber }: Ended, { used, redriven }: CountedRun): Used {
  if (!redriven) return used;
  if (sequenceNumber <= redriven.sequenceNumber)
    return { ...redriven, attempts: used.attempts.slice(0, redriven.attempts) };
  return {
    attempts: used.attempts.slice(redriven.attempts),
    toolCalls: Math.max(0, used.toolCalls - redriven.toolCalls),
    toolErrors: Math.max(0, used.toolErrors - redriven.toolErrors),
  };
}

function spentOn(attempts: readonly Attempt[]) {
  const made = attempts.filter(({ outcome }) => outcome !== 'skipped');
  const sum = (of: (attempt: Attempt) => number) => made.reduce((total, attempt) => total + of(attempt), 0);
  return {
    attempts: made.length,
    inputTokens: sum(({ usage }) => (usage ? usage.input + usage.cached + usage.cacheWrite : 0)),
    outputTokens: sum(({ usage }) => usage?.output ?? 0),
    costMicrocents: sum(({ costMicrocents }) => costMicrocents),
  };
}

function under(kind: 'agent' | 'model', name: string, counters: object): Record<string, number> {
  return Object.fromEntries(Object.entries(counters).map(([counter, by]) => [`${kind}:${counter}:${name}`, by]));
}

function nonZero(counters: Readonly<Record<string, number>>): Increments {
  return new Map(Object.entries(counters).filter(([, by]) => by > 0));
}
