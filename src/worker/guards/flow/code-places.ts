import { codesOf } from './codes.ts';

/** The pieces of a text that may be codes. One look at each character is far quicker than a search by every pattern. */
export interface CodePlaces {
  /** Whole tokens of base64: eight characters of its alphabet or more, further full lines of it, and the filling. */
  readonly base64: readonly string[];
  /** Of them those with room for base32. */
  readonly long: readonly string[];
  /** Around at least sixteen hexadecimal digits with nothing but their usual separators between them. */
  readonly hex: readonly string[];
  /** Eight numbers follow closely on each other. */
  readonly hasNumbers: boolean;
  /** Fifteen single characters have a separator behind each. */
  readonly hasSpaced: boolean;
  /** Eight backslashes. */
  readonly hasEscapes: boolean;
}

const minBase64 = 8;
const minLine = 40;
const minBase32 = 16;
const minHexDigits = 16;
const minNumbers = 8;
const maxBetweenNumbers = 8;
const minSpaced = 15;
const minEscapes = 8;

const inBase64 = 1;
const inHex = 2;
const hexDigit = 4;
const digit = 8;
const separator = 16;
const backslash = 32;

const classes = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const character = String.fromCharCode(code);
  const is = (pattern: RegExp, bit: number) => (pattern.test(character) ? bit : 0);
  return (
    is(/[A-Za-z0-9+/_-]/, inBase64) |
    is(/[0-9a-fxX\\%\s:,;|._-]/i, inHex) |
    is(/[0-9a-f]/i, hexDigit) |
    is(/\d/, digit) |
    is(/[ .,|]/, separator) |
    is(/\\/, backslash)
  );
});

/** Never throws; linear in the text. */
export function codePlaces(text: string): CodePlaces {
  const { length } = text;
  const codes = codesOf(text);
  const runs: number[] = [];
  const hex: string[] = [];
  let run = 0;
  let hexDigits = 0;
  let [digits, numbers, numberEnd, mostNumbers] = [0, 0, -1, 0];
  let [spaced, mostSpaced, escapes] = [0, 0, 0];
  for (let at = 0; at <= length; at++) {
    const code = at < length ? (codes[at] as number) : 0;
    const kind = code < 0x80 ? (classes[code] as number) : 0;
    if ((kind & inBase64) !== 0) run++;
    else if (run > 0) {
      if (run >= minBase64) runs.push(at - run, at);
      spaced = run === 1 && (kind & separator) !== 0 ? spaced + 1 : 0;
      if (spaced > mostSpaced) mostSpaced = spaced;
      run = 0;
    } else spaced = 0;
    if ((kind & digit) !== 0) digits++;
    else if (digits > 0) {
      const isNear = numberEnd >= 0 && at - digits - numberEnd <= maxBetweenNumbers;
      numbers = isNear ? numbers + 1 : 1;
      if (numbers > mostNumbers) mostNumbers = numbers;
      numberEnd = at;
      digits = 0;
    }
    // Without branches, which no text lets foresee.
    const isHex = (kind & inHex) >> 1;
    if (hexDigits >= minHexDigits && isHex === 0) hex.push(text.slice(hexFrom(text, at), at));
    hexDigits = (hexDigits + ((kind & hexDigit) >> 2)) * isHex;
    escapes += (kind & backslash) >> 5;
  }
  return {
    base64: base64Tokens(text, runs),
    long: longRuns(text, runs),
    hex,
    hasNumbers: mostNumbers >= minNumbers,
    hasSpaced: mostSpaced >= minSpaced,
    hasEscapes: escapes >= minEscapes,
  };
}

/** Where the part with hexadecimal digits begins that ends here. */
function hexFrom(text: string, end: number): number {
  let from = end;
  while (from > 0 && ((classes[text.charCodeAt(from - 1)] ?? 0) & inHex) !== 0) from--;
  return from;
}

/** Begin and end of each run in turn. A run goes on behind a line end where the next line is a full one. */
function base64Tokens(text: string, runs: readonly number[]): string[] {
  const tokens: string[] = [];
  for (let at = 0; at < runs.length; at += 2) {
    const from = runs[at] as number;
    while (at + 3 < runs.length && goesOn(text, runs[at + 1] as number, runs[at + 2] as number, runs[at + 3] as number))
      at += 2;
    tokens.push(text.slice(from, withFilling(text, runs[at + 1] as number)));
  }
  return tokens;
}

function goesOn(text: string, end: number, from: number, to: number): boolean {
  return to - from >= minLine && from - end <= 2 && text.slice(end, from).trim() === '';
}

function longRuns(text: string, runs: readonly number[]): string[] {
  const long: string[] = [];
  for (let at = 0; at < runs.length; at += 2) {
    const [from, to] = [runs[at] as number, runs[at + 1] as number];
    if (to - from >= minBase32) long.push(text.slice(from, withFilling(text, to)));
  }
  return long;
}

const maxFilling = 6;

function withFilling(text: string, end: number): number {
  let to = end;
  while (to - end < maxFilling && text[to] === '=') to++;
  return to;
}
