import type { ChildEnd } from '../../shared/contract/control.ts';
import type { EventBody } from '../../shared/contract/event.ts';
import type { StepCosts } from '../admission/step-gate.ts';

/**
 * A run that is a function instead of a turn: it has other runs do the work, and waits for them without a worker. It is run
 * again from its beginning whenever a worker picks the run up, and is then answered what it was answered before, in the same
 * order. So it may depend on nothing but its request and these answers, and its steps are the only place for side effects.
 */
export type Orchestration = (host: OrchestrationHost) => Promise<OrchestrationResult>;

export interface OrchestrationResult {
  readonly text: string;
  readonly output?: unknown;
  /** It could not begin, because something has to be known first. */
  readonly blocked?: true;
  /** A denial ended it, and `text` says so. */
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
