import type { ChildEnd } from '../control.ts';
import type { JournalEntryOf } from './journal.ts';
import type { PersonDecision } from './call.ts';

/** What a program was answered. Whoever runs it again answers the same, in this order. */
export type ProgramFact = {
  readonly atMs: number;
  /** What was paid by then for steps that came to no answer. */
  readonly lostMicrocents: number;
  /** How long the run had been on workers by then, as far as the journal says. */
  readonly workedMs: number;
} & (
  | { readonly kind: 'step'; readonly key: string; readonly value: unknown }
  | { readonly kind: 'child'; readonly end: ChildEnd }
  | { readonly kind: 'said'; readonly decision: PersonDecision }
);
type NewFact<F = ProgramFact> = F extends unknown ? Omit<F, 'lostMicrocents' | 'workedMs'> : never;

/** What a run that is a program has done so far. */
export interface ProgramFacts {
  readonly facts: readonly ProgramFact[];
  /** When each run that works for it was to begin, in milliseconds since the epoch. */
  readonly children: ReadonlyMap<string, number>;
  /** How many of its events are in the log. */
  readonly told: number;
  readonly lostMicrocents: number;
  readonly workedMs: number;
  /** Something was paid whose price nobody knows. */
  readonly unpriced: boolean;
}

/** Collects these facts from a journal. */
export class ProgramLog implements ProgramFacts {
  readonly facts: ProgramFact[] = [];
  readonly children = new Map<string, number>();
  told = 0;
  lostMicrocents = 0;
  workedMs = 0;
  unpriced = false;

  constructor(from?: ProgramFacts) {
    if (!from) return;
    this.facts.push(...from.facts);
    for (const [id, atMs] of from.children) this.children.set(id, atMs);
    this.told = from.told;
    this.lostMicrocents = from.lostMicrocents;
    this.workedMs = from.workedMs;
    this.unpriced = from.unpriced;
  }

  stepped({ key, value, at, told, spent, workedMs }: JournalEntryOf<'orchestration_step'>): void {
    this.workedMs = workedMs ?? this.workedMs;
    this.#add({ kind: 'step', key, value, atMs: Date.parse(at) });
    this.told = told;
    this.unpriced ||= spent?.unpriced ?? false;
  }

  hasTold({ told, spent }: JournalEntryOf<'told'>): void {
    this.told = told;
    this.lostMicrocents += spent?.costMicrocents ?? 0;
    this.unpriced ||= spent?.unpriced ?? false;
  }

  suspended({ at, children = [], told }: JournalEntryOf<'suspended'>): void {
    for (const id of children) if (!this.children.has(id)) this.children.set(id, Date.parse(at));
    this.told = told ?? this.told;
  }

  childEnded(end: ChildEnd, at: string): void {
    if (this.children.has(end.id)) this.#add({ kind: 'child', end, atMs: Date.parse(at) });
    if (end.next !== undefined && !this.children.has(end.next)) this.children.set(end.next, Date.parse(end.at));
  }

  said(decision: PersonDecision, at: string): void {
    this.#add({ kind: 'said', decision, atMs: Date.parse(at) });
  }

  #add(fact: NewFact): void {
    this.facts.push({ ...fact, lostMicrocents: this.lostMicrocents, workedMs: this.workedMs });
  }
}
