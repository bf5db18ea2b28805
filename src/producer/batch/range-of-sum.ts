/** One of the items that were looked at: an amount, and a size that may have to do with it. */
export interface Observed {
  readonly amount: number;
  readonly size: number;
}

/** All items: how many they are, and their sizes together. Those that were looked at are among them. */
export interface Population {
  readonly count: number;
  readonly size: number;
}

export interface Range {
  readonly low: number;
  readonly high: number;
}

/** The normal quantile of 0.97: each side is missed in three of a hundred cases, and what tails add is made up for below. */
const normalQuantile = 1.880_794;
/** Amounts that are all the same say little of the others: so far a mean may be off in any case. */
const leastError = 0.05;
/** Two or three amounts say next to nothing: then a range ends here, in place of nowhere. */
const mostFactor = 20;
/** The largest amount comes so often once more than it was seen: tails are longer than a sample shows. */
const unseenLargest = 2;
/** Fewer pairs than this say nothing about size. */
const leastForLine = 8;
/** A slope counts when it is larger than twice its error. */
const leastSlopeRatio = 4;

/**
 * A range for the sum of all amounts, of which a sample is known: in at least nine of ten cases the sum is within it, also for
 * amounts with long tails and for amounts that grow with their size. Amounts are 0 or more. The same sample has the same range.
 */
export function rangeOfSum(sample: readonly Observed[], all: Population): Range {
  const known = sumOf(sample, ({ amount }) => amount);
  const rest = all.count - sample.length;
  if (rest <= 0 || sample.length === 0) return { low: known, high: known };
  const size = Math.max(0, all.size - sumOf(sample, (item) => item.size)) / rest;
  const shape = growsWithSize(fitOf(sample)) ? 'line' : 'mean';
  const mean = expected(fitOf(sample), shape, size);
  if (mean <= 0) return { low: known, high: known };
  const freedom = Math.max(1, sample.length - (shape === 'line' ? 2 : 1));
  const error = Math.hypot(
    errorOfMean(sample, shape, size, mean),
    spreadOf(sample, shape, freedom) / Math.sqrt(rest) / mean,
    leastError,
  );
  const factor = Math.min(Math.exp(studentQuantile(freedom) * error), mostFactor);
  const largest = 1 + (unseenLargest * largestRatio(sample, shape)) / (sample.length + 1);
  return { low: known + (rest * mean) / factor, high: known + rest * mean * largest * factor };
}

/** What the expected amount of an item follows from: nothing but the mean, or a line through sizes and amounts. */
type Shape = 'mean' | 'line';

interface Fit {
  readonly count: number;
  readonly meanAmount: number;
  readonly meanSize: number;
  readonly sizeSquares: number;
  readonly amountSquares: number;
  readonly products: number;
}

function fitOf(sample: readonly Observed[]): Fit {
  const count = sample.length;
  const meanAmount = sumOf(sample, ({ amount }) => amount) / count;
  const meanSize = sumOf(sample, ({ size }) => size) / count;
  return {
    count,
    meanAmount,
    meanSize,
    sizeSquares: sumOf(sample, ({ size }) => (size - meanSize) ** 2),
    amountSquares: sumOf(sample, ({ amount }) => (amount - meanAmount) ** 2),
    products: sumOf(sample, ({ size, amount }) => (size - meanSize) * (amount - meanAmount)),
  };
}

function growsWithSize({ count, sizeSquares, amountSquares, products }: Fit): boolean {
  if (count < leastForLine || sizeSquares <= 0 || products <= 0) return false;
  const explained = products ** 2 / sizeSquares;
  const unexplained = Math.max(0, amountSquares - explained) / (count - 2);
  return explained > leastSlopeRatio * unexplained;
}

/** The amount of an item of this size. Never below 0: a line that would begin there goes through the origin. */
function expected({ meanAmount, meanSize, sizeSquares, products }: Fit, shape: Shape, size: number): number {
  if (shape === 'mean' || sizeSquares <= 0) return meanAmount;
  const slope = Math.max(0, products / sizeSquares);
  const start = meanAmount - slope * meanSize;
  return start < 0 ? (meanAmount * size) / meanSize : start + slope * size;
}

/** How far, as a factor, the expected amount depends on each single item: the jackknife, on the scale of logarithms. */
function errorOfMean(sample: readonly Observed[], shape: Shape, size: number, mean: number): number {
  const { length: count } = sample;
  if (count === 1) return 1;
  const without = sample.map((_, left) => {
    const others = fitOf(sample.filter((__, index) => index !== left));
    return Math.log(Math.max(expected(others, shape, size) / mean, Number.MIN_VALUE));
  });
  const middle = without.reduce((sum, value) => sum + value, 0) / count;
  const squares = without.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return Math.sqrt((squares * (count - 1)) / count);
}

/** How far single amounts are from what is expected of them. */
function spreadOf(sample: readonly Observed[], shape: Shape, freedom: number): number {
  const fit = fitOf(sample);
  return Math.sqrt(sumOf(sample, ({ amount, size }) => (amount - expected(fit, shape, size)) ** 2) / freedom);
}

/** The largest amount, as a multiple of what is expected of it. */
function largestRatio(sample: readonly Observed[], shape: Shape): number {
  const fit = fitOf(sample);
  const ratios = sample.map(({ amount, size }) => {
    const usual = expected(fit, shape, size);
    return usual > 0 ? amount / usual : 0;
  });
  return Math.max(...ratios);
}

function sumOf<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}

/** The same quantile of Student's distribution, by the expansion of Cornish and Fisher. */
function studentQuantile(freedom: number): number {
  const z = normalQuantile;
  const first = (z ** 3 + z) / 4;
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96;
  const third = (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384;
  return z + first / freedom + second / freedom ** 2 + third / freedom ** 3;
}
