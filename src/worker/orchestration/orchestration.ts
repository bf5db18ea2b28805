import type { ChildEnd } from '../../shared/contract/control.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import type { StepCosts } from '../admission/step-gate.ts';
import { isAnswer } from '../../shared/state/run/children/children.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { RunError } from '../../shared/base/errors.ts';
import { within } from '../../shared/base/deadline.ts';

/**
 * A run that is a function instead of a turn: it has other runs do the work, and waits for them without a worker. It is run
 * again from its beginning whenever a worker picks the run up, and then gets the answers that it got before, in the same
 * order. So it may depend on nothing but its request and these answers, and its steps are the only place for side effects.
 */
export type Orchestration = (host: OrchestrationHost) => Promise<OrchestrationResult>;

export interface OrchestrationResult {
  readonly text: string;
  readonly output?: unknown;
  /** It could not begin, because something has to be known first. */
  readonly blocked?: true;
  /** A denial ended it; `text` has the reason. */
  readonly degraded?: true;
}

/** What an orchestration works with. Every key is used once in a run. */
export interface OrchestrationHost {
  /**
   * Runs a function, once; after a crash in the middle of it again. Its answer is JSON and is kept; a throw is not, and the
   * orchestration must let it pass. One that costs something begins when there is money for it.
   */
  step(key: string, work: (signal: AbortSignal) => unknown, costs?: StepCosts): Promise<unknown>;
  /** Has an agent do something, as a run of its own. */
  child(key: string, asked: AskedChild): Promise<ChildAnswer>;
  /** Asks people, and answers what they decide. */
  ask(key: string, question: string): Promise<string>;
  /** Emitted once, with the next journal entry, however often the orchestration is replayed. */
  emit(event: EventBody): void;
  /** When the last answer came, in milliseconds since the epoch: the same in each replay. */
  now(): number;
  /** How long the run had been on workers when the last answer came, in milliseconds: the same in each replay. */
  workedMs(): number;
  /** What was paid for steps that came to no answer, in microcents, as far as the journal knew it at the last answer. */
  lostMicrocents(): number;
  /** Aborts when the run is to stop here. The orchestration is then left behind. */
  readonly signal: AbortSignal;
}

export interface AskedChild {
  readonly agentId: string;
  readonly input: string;
  /** Stops it, when it aborts. It still answers: with how it ended. */
  readonly signal?: AbortSignal;
  /** It may work for so many milliseconds, and then fails with `budget_exceeded`. */
  readonly durationMs?: number | undefined;
  readonly group?: ChildGroup;
}

/** Of several that are asked together: the orchestration gets their answers when all have ended, unless `first` is set. */
export interface ChildGroup {
  /** So many work at the same time. The others begin as those end, in the order in which they were asked. */
  readonly width: number;
  /** The first that completes is answered at once, and no other begins after it. */
  readonly first: boolean;
}

/** `never`: it was stopped before it began. */
export type ChildAnswer = { readonly runId: string } & (
  | { readonly kind: 'never' }
  | { readonly kind: 'ended'; readonly end: ChildEnd }
);

/** The text of the run's answer. Throws as it failed. */
export function answerText(answer: ChildAnswer, who: string): string {
  if (answer.kind === 'never') throw new RunError('cancelled', `${who} was not asked`);
  const { status, text, error } = answer.end;
  if (isAnswer(answer.end)) return text;
  throw new RunError(error?.code ?? 'internal', `${who} did not answer: ${error?.message ?? `its run is ${status}`}`);
}

/** No time passes in an orchestration: its host stops a child whose time is up, and the child answers. */
export function stoppedClock(host: OrchestrationHost): Clock {
  return {
    now: () => host.now(),
    monotonic: () => host.now(),
    sleep: (_ms, signal) =>
      new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  };
}

/** The deadline of what has no other: a day, in milliseconds. */
export const longestMs = 86_400_000;

/**
 * What a function of the operator's own answers, or undefined when the signal aborted first; one that ignores its signal is
 * left behind. Throws what the function throws, and `run_timeout` after a day.
 */
export async function foreignAnswer<T>(
  work: (signal: AbortSignal) => Promise<T> | T,
  clock: Clock,
  signal: AbortSignal,
): Promise<{ readonly value: T } | undefined> {
  const settled = await within(longestMs, work, clock, signal);
  switch (settled.kind) {
    case 'value':
      return { value: settled.value as T };
    case 'threw':
      throw settled.error;
    case 'timeout':
      throw new RunError('run_timeout', 'no answer within a day');
    default:
      return undefined;
  }
}
