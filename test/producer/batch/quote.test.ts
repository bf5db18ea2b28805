import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { quoteOf, type QuoteFacts, type SampledLine } from '../../../src/producer/batch/quote.ts';
import { rangeOfSum } from '../../../src/producer/batch/range-of-sum.ts';
import { seeded } from '../../support/seeded.ts';
import { tableOf } from './support.ts';

const facts: QuoteFacts = {
  lines: 2_000,
  bytes: 200_000,
  maxOpen: 200,
  slots: 50,
  waiting: 0,
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  elapsedMs: 4_000,
  sampleMs: 3_000,
};

const sampledLine = fc.record({
  costMicrocents: fc.integer({ min: 0, max: 1e9 }),
  requests: fc.integer({ min: 0, max: 100 }),
  tokens: fc.integer({ min: 0, max: 1e6 }),
  bytes: fc.integer({ min: 2, max: 100_000 }),
  workedMs: fc.integer({ min: 1, max: 600_000 }),
});
const samples = fc.array(sampledLine, { minLength: 1, maxLength: 60 });
const factsOf = (sample: readonly SampledLine[], lines: number, more: Partial<QuoteFacts> = {}): QuoteFacts => {
  const bytes = sample.reduce((sum, line) => sum + line.bytes, 0);
  return { ...facts, lines, bytes: (bytes / sample.length) * lines, ...more };
};

test('a range is a range, holds what the sample has spent already, and the same sample has the same one', () => {
  fc.assert(
    fc.property(samples, fc.integer({ min: 0, max: 50_000 }), (sample, more) => {
      const about = factsOf(sample, sample.length + more);
      const quote = quoteOf(sample, about);
      const spent = sample.reduce((sum, { costMicrocents }) => sum + costMicrocents, 0) / 1e8;
      expect(quote.costUsd.low).toBeGreaterThanOrEqual(spent * 0.999_999);
      expect(quote.costUsd.high).toBeGreaterThanOrEqual(quote.costUsd.low);
      expect(quote.seconds.low).toBeGreaterThanOrEqual(4);
      expect(quote.seconds.high).toBeGreaterThanOrEqual(quote.seconds.low);
      expect([quote.costUsd, quote.seconds].flatMap(Object.values).every(Number.isFinite)).toBe(true);
      expect(quoteOf(sample, about)).toEqual(quote);
    }),
  );
});

test('money scales with money: prices twice as high make a quote twice as high', () => {
  fc.assert(
    fc.property(samples, fc.integer({ min: 1, max: 10_000 }), (sample, more) => {
      const about = factsOf(sample, sample.length + more);
      const { costUsd } = quoteOf(sample, about);
      const twice = quoteOf(
        sample.map((line) => ({ ...line, costMicrocents: line.costMicrocents * 2 })),
        about,
      ).costUsd;
      expect(twice.low).toBeCloseTo(costUsd.low * 2, 4);
      expect(twice.high).toBeCloseTo(costUsd.high * 2, 4);
    }),
  );
});

const plain = (index: number): SampledLine => ({
  costMicrocents: 100_000 + index * 1_000,
  requests: 1,
  tokens: 1_000,
  bytes: 100,
  workedMs: 3_000 + index * 20,
});
const twenty = Array.from({ length: 20 }, (_, index) => plain(index));

test('more lines, a longer queue, fewer slots and a slower provider make a batch longer; a sample that is all makes it certain', () => {
  const seconds = (more: Partial<QuoteFacts>) => quoteOf(twenty, { ...facts, ...more }).seconds;
  const usual = seconds({});
  expect(seconds({ lines: 4_000, bytes: 400_000 }).low).toBeGreaterThan(usual.low);
  expect(seconds({ waiting: 1_000 }).high).toBeGreaterThan(usual.high);
  expect(seconds({ slots: 10 }).low).toBeGreaterThan(usual.low);
  expect(seconds({ maxOpen: 10 })).toEqual(seconds({ slots: 10, maxOpen: 10 }));
  // Two million tokens at a hundred thousand a minute.
  expect(seconds({ tokensPerMinute: 100_000 }).low).toBeGreaterThan(1_000);
  expect(seconds({ tokensPerMinute: 100_000 }).low).toBeLessThan(1_200);
  expect(seconds({ tokensPerMinute: 100_000 }).high).toBeGreaterThan(1_200);
  expect(seconds({ requestsPerMinute: 100 }).low).toBeGreaterThan(1_000);
  expect(seconds({ requestsPerMinute: 100 }).high).toBeGreaterThan(1_200);
  expect(seconds({ lines: 20, bytes: 2_000 })).toEqual({ low: 4, high: 4 });
  expect(seconds({ slots: undefined }).high).toBeGreaterThan(usual.high);
});

test('a sample of short lines expects more of long ones', () => {
  const sample = Array.from({ length: 20 }, (_, index) => ({
    ...plain(0),
    bytes: 100 + index,
    costMicrocents: 1_000 * (100 + index),
  }));
  const short = quoteOf(sample, { ...facts, bytes: 2_000 * 110 }).costUsd;
  const long = quoteOf(sample, { ...facts, bytes: 2_000 * 1_000 }).costUsd;
  expect(short.low).toBeLessThan(2.2);
  expect(short.high).toBeGreaterThan(2.2);
  expect(long.low).toBeLessThan(20);
  expect(long.high).toBeGreaterThan(20);
});

/** A line of a made-up file: what it will cost, and how long it is. */
interface MadeUp {
  readonly amount: number;
  readonly size: number;
}
type Draw = () => MadeUp;
type Uniform = () => number;

const bell = (uniform: Uniform) => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
const logNormal = (sigma: number) => (uniform: Uniform) => Math.exp(sigma * bell(uniform));
const pareto = (alpha: number) => (uniform: Uniform) => (1 - uniform()) ** (-1 / alpha);
const ofSize = (amount: (uniform: Uniform) => number) => (uniform: Uniform) => () => ({
  amount: amount(uniform),
  size: 100,
});
const byLength = (sigma: number, noise: number, base: number) => (uniform: Uniform) => () => {
  const size = Math.round(Math.exp(5 + sigma * bell(uniform))) + 2;
  return { amount: (base + size) * Math.exp(noise * bell(uniform)), size };
};

const files: Readonly<Record<string, (uniform: Uniform) => Draw>> = {
  'all the same': ofSize(() => 1),
  'log-normal, 0.5': ofSize(logNormal(0.5)),
  'log-normal, 1': ofSize(logNormal(1)),
  'log-normal, 1.5': ofSize(logNormal(1.5)),
  'Pareto, 2.5': ofSize(pareto(2.5)),
  'Pareto, 1.8': ofSize(pareto(1.8)),
  exponential: ofSize((uniform) => -Math.log(1 - uniform())),
  'by length': byLength(1, 0.3, 50),
  'by length, long tail': byLength(1.3, 0.8, 20),
  'of any length': (uniform) => () => ({ ...byLength(1, 0, 0)(uniform)(), amount: logNormal(1)(uniform) }),
};

function uniformOf(stream: number): Uniform {
  const random = seeded(stream);
  return () => random.below(2 ** 30) / 2 ** 30;
}

/** One line of each twentieth of the file. */
function sampleOf<T>(lines: readonly T[], uniform: Uniform, count = 20): readonly T[] {
  const step = lines.length / count;
  return Array.from({ length: count }, (_, index) => lines[Math.floor((index + uniform()) * step)] as T);
}

const tries = 250;

test('the cost of nine in ten batches is within its range, also of files with long tails', { timeout: 120_000 }, () => {
  const figures = Object.entries(files).map(([name, file], stream) => {
    const uniform = uniformOf(stream);
    const draw = file(uniform);
    let within = 0;
    let width = 0;
    for (let attempt = 0; attempt < tries; attempt++) {
      const lines = Array.from({ length: 1_000 }, draw);
      const truth = lines.reduce((sum, { amount }) => sum + amount, 0);
      const size = lines.reduce((sum, line) => sum + line.size, 0);
      const { low, high } = rangeOfSum(sampleOf(lines, uniform), { count: lines.length, size });
      if (low <= truth && truth <= high) within += 1;
      width += Math.log(high / low);
    }
    return { file: name, 'within, %': (within / tries) * 100, 'high / low': Math.exp(width / tries).toFixed(1) };
  });
  process.stdout.write(tableOf(figures));
  const worst = Math.min(...figures.map((row) => row['within, %']));
  // Tries of 90 % give 86 % now and then.
  expect(worst).toBeGreaterThanOrEqual(86);
  expect(figures.reduce((sum, row) => sum + row['within, %'], 0) / figures.length).toBeGreaterThanOrEqual(93);
});

/** Lanes that take lines in their order, each as soon as it is free, and no faster than a provider and a machine allow. */
function simulatedMs(durations: readonly number[], lanes: number, msPerLine: number): number {
  const free = Array.from({ length: lanes }, () => 0);
  let startsAt = 0;
  for (const duration of durations) {
    let lane = 0;
    for (let other = 1; other < lanes; other++) if ((free[other] as number) < (free[lane] as number)) lane = other;
    startsAt = Math.max(startsAt + msPerLine, free[lane] as number);
    free[lane] = startsAt + duration;
  }
  return Math.max(...free);
}

test(
  'the time of nine in ten batches is within its range, for many lanes and few, slow machines and slow providers',
  { timeout: 120_000 },
  () => {
    const worlds = [
      {
        name: 'a provider, 50 slots',
        slots: 50,
        medianMs: 4_000,
        sigma: 0.6,
        msPerLine: 4,
        tokensPerMinute: undefined,
      },
      {
        name: 'a provider, 200 slots, long tail',
        slots: 200,
        medianMs: 4_000,
        sigma: 1.2,
        msPerLine: 4,
        tokensPerMinute: undefined,
      },
      {
        name: 'no provider, a busy core',
        slots: 50,
        medianMs: 40,
        sigma: 0.3,
        msPerLine: 12,
        tokensPerMinute: undefined,
      },
      { name: 'tokens per minute', slots: 100, medianMs: 2_000, sigma: 0.8, msPerLine: 4, tokensPerMinute: 60_000 },
    ];
    const figures = worlds.map(({ name, slots, medianMs, sigma, msPerLine, tokensPerMinute }, stream) => {
      const uniform = uniformOf(100 + stream);
      const attempts = 150;
      let within = 0;
      let width = 0;
      for (let attempt = 0; attempt < attempts; attempt++) {
        const lines = Array.from({ length: 1_000 }, (): SampledLine => {
          const tokens = Math.round(500 * logNormal(0.5)(uniform));
          return { costMicrocents: 1, requests: 1, tokens, bytes: 100, workedMs: medianMs * logNormal(sigma)(uniform) };
        });
        const sample = sampleOf(lines, uniform);
        const rest = lines.filter((line) => !sample.includes(line));
        const sampleMs = simulatedMs(
          sample.map(({ workedMs }) => workedMs),
          Math.min(20, slots),
          msPerLine,
        );
        const tokens = rest.reduce((sum, line) => sum + line.tokens, 0);
        const pacedMs = tokensPerMinute ? (tokens / tokensPerMinute) * 60_000 : 0;
        const truth =
          sampleMs +
          Math.max(
            pacedMs,
            simulatedMs(
              rest.map(({ workedMs }) => workedMs),
              Math.min(200, slots),
              msPerLine,
            ),
          );
        const about = { ...facts, lines: 1_000, bytes: 100_000, slots, tokensPerMinute, sampleMs, elapsedMs: sampleMs };
        const { low, high } = quoteOf(sample, about).seconds;
        if (low <= truth / 1_000 && truth / 1_000 <= high) within += 1;
        width += Math.log(high / low);
      }
      return {
        world: name,
        'within, %': (within / attempts) * 100,
        'high / low': Math.exp(width / attempts).toFixed(1),
      };
    });
    process.stdout.write(tableOf(figures));
    expect(Math.min(...figures.map((row) => row['within, %']))).toBeGreaterThanOrEqual(87);
  },
);
