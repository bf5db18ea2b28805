import type { ChildEnd } from '../../shared/control.ts';
import type { JournalEntryOf } from '../../shared/journal.ts';
import type { PersonDecision } from '../tools/call.ts';

/** What a program was answered. Whoever runs it again answers the same, in this order. */
export type ProgramFact = { readonly atMs: number } & (
  | { readonly kind: 'step'; readonly key: string; readonly value: unknown }
  | { readonly kind: 'child'; readonly end: ChildEnd }
  | { readonly kind: 'said'; readonly decision: PersonDecision }
);

/** What a run that is a program has done so far. */
export interface ProgramFacts {
  readonly facts: readonly ProgramFact[];
  /** When each run that works for it was asked, in milliseconds since the epoch. */
  readonly children: ReadonlyMap<string, number>;
  /** How many of its events are in the log. */
  readonly told: number;
}

/** Collects these facts from a journal. */
export class ProgramLog implements ProgramFacts {
  readonly facts: ProgramFact[] = [];
  readonly children = new Map<string, number>();
  told = 0;

  constructor(from?: ProgramFacts) {
    if (!from) return;
    this.facts.push(...from.facts);
    for (const [id, atMs] of from.children) this.children.set(id, atMs);
    this.told = from.told;
  }

  stepped({ key, value, at, told }: JournalEntryOf<'stepped'>): void {
    this.facts.push({ kind: 'step', key, value, atMs: Date.parse(at) });
    this.told = told;
  }

  suspended({ at, children = [], told }: JournalEntryOf<'suspended'>): void {
    for (const id of children) if (!this.children.has(id)) this.children.set(id, Date.parse(at));
    this.told = told ?? this.told;
  }

  childEnded(end: ChildEnd, at: string): void {
    if (this.children.has(end.id)) this.facts.push({ kind: 'child', end, atMs: Date.parse(at) });
  }

  said(decision: PersonDecision, at: string): void {
    this.facts.push({ kind: 'said', decision, atMs: Date.parse(at) });
  }
}
