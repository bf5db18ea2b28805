import type { ChildEnd } from '../control.ts';
import type { JournalEntryOf } from './journal.ts';
import type { PersonDecision } from './call.ts';

/** One answer that an orchestration got. A replay gives it the same answers in the same order. */
export type OrchestrationFact = {
  readonly atMs: number;
  /** What was paid by then for steps that came to no answer. */
  readonly lostMicrocents: number;
  /** How long the run had been on workers by then, as far as the journal says. */
  readonly workedMs: number;
} & (
  | { readonly kind: 'step'; readonly key: string; readonly value: unknown }
  | { readonly kind: 'child'; readonly end: ChildEnd }
  | { readonly kind: 'decision'; readonly decision: PersonDecision }
);
type NewFact<F = OrchestrationFact> = F extends unknown ? Omit<F, 'lostMicrocents' | 'workedMs'> : never;

/** What an orchestration has done so far. */
export interface OrchestrationFacts {
  readonly facts: readonly OrchestrationFact[];
  /** When each of its children was to begin, in milliseconds since the epoch. */
  readonly children: ReadonlyMap<string, number>;
  /** How many of its events are in the log. */
  readonly emitted: number;
  readonly lostMicrocents: number;
  readonly workedMs: number;
  /** Something was paid whose price is not known. */
  readonly unpriced: boolean;
}

/** Collects these facts from a journal. */
export class OrchestrationLog implements OrchestrationFacts {
  readonly facts: OrchestrationFact[] = [];
  readonly children = new Map<string, number>();
  emitted = 0;
  lostMicrocents = 0;
  workedMs = 0;
  unpriced = false;

  constructor(from?: OrchestrationFacts) {
    if (!from) return;
    this.facts.push(...from.facts);
    for (const [id, atMs] of from.children) this.children.set(id, atMs);
    this.emitted = from.emitted;
    this.lostMicrocents = from.lostMicrocents;
    this.workedMs = from.workedMs;
    this.unpriced = from.unpriced;
  }

  addStep({ key, value, at, emitted, spent, workedMs }: JournalEntryOf<'orchestration_step'>): void {
    this.workedMs = workedMs ?? this.workedMs;
    this.#add({ kind: 'step', key, value, atMs: Date.parse(at) });
    this.emitted = emitted;
    this.unpriced ||= spent?.unpriced ?? false;
  }

  addEmitted({ emitted, spent }: JournalEntryOf<'orchestration_emitted'>): void {
    this.emitted = emitted;
    this.lostMicrocents += spent?.costMicrocents ?? 0;
    this.unpriced ||= spent?.unpriced ?? false;
  }

  addChildren({ at, children = [], emitted }: JournalEntryOf<'suspended'>): void {
    for (const id of children) if (!this.children.has(id)) this.children.set(id, Date.parse(at));
    this.emitted = emitted ?? this.emitted;
  }

  addChildEnd(end: ChildEnd, at: string): void {
    if (this.children.has(end.id)) this.#add({ kind: 'child', end, atMs: Date.parse(at) });
    if (end.next !== undefined && !this.children.has(end.next)) this.children.set(end.next, Date.parse(end.at));
  }

  addDecision(decision: PersonDecision, at: string): void {
    this.#add({ kind: 'decision', decision, atMs: Date.parse(at) });
  }

  #add(fact: NewFact): void {
    this.facts.push({ ...fact, lostMicrocents: this.lostMicrocents, workedMs: this.workedMs });
  }
}
