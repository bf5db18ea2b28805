import type { ChildEnd } from '../../shared/control.ts';
import type { EventBody } from '../../shared/event.ts';
import type { RunUsage } from '../../shared/money.ts';

/**
 * A run that is a function instead of a turn: it has other runs do the work, and waits for them without a worker. It is run
 * again from its beginning whenever a worker picks the run up, and is then answered what it was answered before, in the same
 * order. So it may depend on nothing but its request and these answers, and its steps are the only place for side effects.
 */
export type Program = (host: ProgramHost) => Promise<ProgramResult>;

export interface ProgramResult {
  readonly text: string;
  readonly output?: unknown;
  /** It could not begin, because something has to be known first. */
  readonly blocked?: true;
}

/** What a program works with. Every key is used once in a run. */
export interface ProgramHost {
  /**
   * Runs a function, once; after a crash in the middle of it again. Its answer is JSON and is kept; a throw is not, and the
   * program must let it pass.
   */
  step(key: string, work: (signal: AbortSignal) => unknown, spentOn?: SpentOn): Promise<unknown>;
  /** Has an agent do something, as a run of its own. */
  child(key: string, asked: AskedChild): Promise<ChildAnswer>;
  /** Asks people, and answers what they say. */
  ask(key: string, question: string): Promise<string>;
  /** Told once, with the next thing that the journal gets, however often the program is run. */
  emit(event: EventBody): void;
  /** When the last answer came, in milliseconds since the epoch: the same whenever the program is run again. */
  now(): number;
  /** Aborts when the run is to stop here. The program is then left behind. */
  readonly signal: AbortSignal;
}

/** What a step has paid by itself, by its answer. */
export type SpentOn = (value: unknown) => { readonly costMicrocents: number; readonly usage: RunUsage };

export interface AskedChild {
  readonly agentId: string;
  readonly input: string;
  /** Stops it, when it aborts. It still answers: with how it ended. */
  readonly signal?: AbortSignal;
  /** Stopped so many milliseconds after it was asked. */
  readonly durationMs?: number | undefined;
}

/** `never`: it was stopped before anybody was asked. `isLate`: it was stopped because its time was over. */
export type ChildAnswer = { readonly runId: string } & (
  | { readonly kind: 'never' }
  | { readonly kind: 'ended'; readonly end: ChildEnd; readonly isLate: boolean }
);
