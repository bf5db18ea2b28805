import type { BatchQuote } from '../../shared/contract/batch.ts';

/** A line of the sample that has ended. */
export interface SampledLine {
  readonly costMicrocents: number;
  /** Bytes of the line in the file: longer lines cost more. */
  readonly bytes: number;
  /** From its first step to its end. */
  readonly workedMs: number;
}

/** What is known when the sample has ended. */
export interface QuoteFacts {
  /** Lines of the whole batch that are requests, and their bytes. */
  readonly lines: number;
  readonly bytes: number;
  /** Runs of the batch that are open at once, at most. */
  readonly maxOpen: number;
  /** Runs that the live workers of the queue have room for at once. Undefined: no worker says. */
  readonly slots: number | undefined;
  /** Runs that wait in the queue now. */
  readonly waiting: number;
}

/** What the whole batch is likely to cost and how long it is likely to take. */
export function quoteOf(sample: readonly SampledLine[], facts: QuoteFacts): BatchQuote {
  const { length: sampled } = sample;
  const sum = (of: (line: SampledLine) => number) => sample.reduce((all, line) => all + of(line), 0);
  const factor = sampled === 0 ? 0 : facts.lines / sampled;
  const usd = (sum(({ costMicrocents }) => costMicrocents) * factor) / 1e8;
  const lanes = Math.max(1, Math.min(facts.maxOpen, facts.slots ?? facts.maxOpen));
  const seconds = (sum(({ workedMs }) => workedMs) * factor) / lanes / 1_000;
  return {
    lines: facts.lines,
    sampled,
    costUsd: { low: usd / 2, high: usd * 2 },
    seconds: { low: seconds / 2, high: seconds * 2 },
  };
}
