import type { BatchQuote } from '../../shared/contract/batch.ts';
import { microcentsPerUsd } from '../../shared/contract/money.ts';
import { rangeOfSum, type Range, type Observed } from './range-of-sum.ts';

/** A line of the sample that has ended. */
export interface SampledLine {
  readonly costMicrocents: number;
  /** To models, repeated ones too. */
  readonly requests: number;
  /** Of all its model calls, in and out. */
  readonly tokens: number;
  /** Bytes of the line in the file: longer lines cost more. */
  readonly bytes: number;
  /** From its first step to its end. */
  readonly workedMs: number;
}

/** What is known when the sample has ended. */
export interface QuoteFacts {
  /** Lines of the whole batch that are requests, and their bytes; the sample is a part of both. */
  readonly lines: number;
  readonly bytes: number;
  /** Runs of the batch that are open at once, at most. */
  readonly maxOpen: number;
  /** Runs that the live workers of the queue have room for at once. Undefined: no worker says. */
  readonly slots: number | undefined;
  /** Runs that wait in the queue now. */
  readonly waiting: number;
  /** What the provider takes of the fleet. Undefined: it is not known, or takes all. */
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  /** What the batch has worked until now, and of that the time from the first line of the sample being begun to the last end. */
  readonly elapsedMs: number;
  readonly sampleMs: number;
}

/**
 * What the whole batch is likely to cost and how long it is likely to work, the sample and the time until now included. The truth is
 * within a range in nine of ten cases, for lines of any length and costs of any usual spread; lines of a rare kind, of which the
 * sample has none, no sample knows. The lines of the sample should be from all over the file.
 */
export function quoteOf(sample: readonly SampledLine[], facts: QuoteFacts): BatchQuote {
  const costs = sample.map(({ costMicrocents, bytes }) => ({ amount: costMicrocents, size: bytes }));
  return {
    lines: facts.lines,
    sampled: sample.length,
    costUsd: scaled(rangeOfSum(costs, { count: facts.lines, size: facts.bytes }), 1 / microcentsPerUsd),
    seconds: scaled(durationMs(sample, facts), 1 / 1_000),
  };
}

function scaled({ low, high }: Range, by: number): Range {
  return { low: low * by, high: high * by };
}

/** A fast provider and a busy machine make a line this much faster or slower than those of the sample. */
const faster = 0.6;
const slower = 1.25;
/** What a line costs the machines in any case: at the best, and where fifty slots are one slow core. */
const leastMsPerLine = 1.2;
const mostMsPerLineAndSlot = 3_000;
const minuteMs = 60_000;
/** A sample shows less than the whole spread. */
const widerTail = 1.15;
/** No longer line is foreseen. */
const longestLineMs = 3_600_000;
/** Until the last result is noticed, and the output is written. */
const endingMs = 5_000;

function durationMs(sample: readonly SampledLine[], facts: QuoteFacts): Range {
  const { maxOpen, waiting, elapsedMs } = facts;
  const rest = Math.max(0, facts.lines - sample.length);
  if (rest === 0 || sample.length === 0) return { low: elapsedMs, high: elapsedMs };
  const slots = facts.slots ?? maxOpen;
  const lanes = Math.max(1, Math.min(maxOpen, slots));
  // Without a word of a worker, the sample shows how many lines can work at once.
  const sureLanes = facts.slots === undefined ? Math.max(1, Math.min(lanes, sample.length)) : lanes;
  const worked = restOf(sample, facts, ({ workedMs }) => workedMs);
  const pace = paceMs(sample, facts);
  const busyMs = Math.min(facts.sampleMs / sample.length, mostMsPerLineAndSlot / Math.max(1, slots));
  const aheadMs = (waiting * worked.high) / rest / sureLanes;
  const low = Math.max((worked.low * faster) / lanes, rest * leastMsPerLine, pace.low);
  const high = Math.max(worked.high / sureLanes, rest * busyMs, pace.high);
  return { low: elapsedMs + low, high: elapsedMs + (high + aheadMs + longestOf(sample, rest)) * slower + endingMs };
}

/** How long a provider takes for what the lines ask of it. A minute's worth it takes at once. */
function paceMs(sample: readonly SampledLine[], facts: QuoteFacts): Range {
  const requests = minutes(
    restOf(sample, facts, (line) => line.requests),
    facts.requestsPerMinute,
  );
  const tokens = minutes(
    restOf(sample, facts, (line) => line.tokens),
    facts.tokensPerMinute,
  );
  const low = Math.max(requests.low, tokens.low, 1) - 1;
  return { low: low * minuteMs, high: Math.max(requests.high, tokens.high) * minuteMs };
}

function minutes({ low, high }: Range, perMinute: number | undefined): Range {
  return perMinute === undefined ? { low: 0, high: 0 } : { low: low / perMinute, high: high / perMinute };
}

/** How long the longest of so many further lines is likely to take at most: all others may have ended while it still works. */
function longestOf(sample: readonly SampledLine[], rest: number): number {
  const logarithms = sample.map(({ workedMs }) => Math.log(Math.max(workedMs, 1)));
  const mean = logarithms.reduce((sum, value) => sum + value, 0) / sample.length;
  const squares = logarithms.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const spread = Math.sqrt(squares / Math.max(1, sample.length - 1)) * widerTail;
  // Near the largest of so many numbers of a normal distribution, and half a step on.
  const steps = Math.sqrt(2 * Math.log(Math.max(rest, 2)));
  return Math.min(Math.exp(mean + spread * steps), longestLineMs);
}

/** The same sum over the lines that are still to come. */
function restOf(sample: readonly SampledLine[], facts: QuoteFacts, amountOf: (line: SampledLine) => number): Range {
  const observed: Observed[] = sample.map((line) => ({ amount: amountOf(line), size: line.bytes }));
  const known = observed.reduce((sum, { amount }) => sum + amount, 0);
  const { low, high } = rangeOfSum(observed, { count: facts.lines, size: facts.bytes });
  return { low: low - known, high: high - known };
}
