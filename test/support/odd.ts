import type { seeded } from './seeded.ts';

type Random = ReturnType<typeof seeded>;

const high = '\ud83d';
const low = '\ude00';

/** Texts that some reader or writer between here and Redis has its trouble with. */
const texts: readonly string[] = [
  high,
  low,
  `half ${high}`,
  `${low} half`,
  `${low}${high}`,
  `${high}${high}${low}`,
  `${high}${low}`,
  'a\0b',
  '\0',
  '\uFEFFmark',
  '\uFFFE\uFFFF',
  '\u2028\u2029',
  '\u0001\u001b[31m\u007f\u0085',
  'line\r\nX-Odd: 1\r\n\r\n',
  '"\\',
  '\\ud83d',
  '\\\\ud83d\\',
  '"},{"kind":"child","id":"x"',
  '[[[{{{',
  '__proto__',
  'constructor',
  '',
  ' ',
  '%s%n$1$&',
  '{}',
  'null',
  '1e400',
  'é'.normalize('NFD'),
  '𝒳'.repeat(40),
];

export function oddText(random: Random): string {
  const one = texts[random.below(texts.length)] ?? '';
  switch (random.below(6)) {
    case 0:
      return one + (texts[random.below(texts.length)] ?? '');
    case 1:
      return one.repeat(random.below(200));
    case 2:
      return String.fromCharCode(...Array.from({ length: 1 + random.below(8) }, () => random.below(0x1_00_00)));
    default:
      return one;
  }
}

const numbers: readonly number[] = [
  0,
  -0,
  1e308,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  5e-324,
  2 ** 53 + 1,
  -(2 ** 63),
  0.1,
  1e21,
  Number.NaN,
];

/** A value as JSON, or a program, might bring it: never a function, and no deeper than `levels`. */
export function oddValue(random: Random, levels = 4): unknown {
  const kind = random.below(levels > 0 ? 8 : 5);
  if (kind < 3) return oddText(random);
  if (kind === 3) return numbers[random.below(numbers.length)];
  if (kind === 4) return [null, true, false][random.below(3)];
  const size = random.below(4);
  if (kind === 5) return Array.from({ length: size }, () => oddValue(random, levels - 1));
  return oddRecord(random, levels - 1);
}

export function oddRecord(random: Random, levels = 3): Record<string, unknown> {
  const size = random.below(4);
  return Object.fromEntries(Array.from({ length: size }, () => [oddText(random), oddValue(random, levels)]));
}

/** So many lists in each other. */
export function deep(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels);
}
