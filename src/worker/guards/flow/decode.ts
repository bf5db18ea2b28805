import { jsonOr } from '../../../shared/base/json.ts';
import { codePlaces } from './code-places.ts';

/** How often a text may have been encoded again. */
const maxRounds = 3;
/** Decoded texts of one text. */
const maxTexts = 4_096;
/** The most characters that decoding one text may bring to light, beside those of the text itself. */
const maxDecodedChars = 524_288;
/** Up to this length every kind of escape is also decoded by itself. */
const maxTriedChars = 16_384;

/** What a text stands for once it is decoded. `cut`: there is more than was decoded. */
export interface Decoded {
  readonly texts: readonly string[];
  readonly cut: boolean;
}

/**
 * What a reader makes of a text who decodes whatever in it looks encoded: escapes of JSON and JavaScript, percent and quoted
 * printable, HTML entities, base64, base32, hex, binary and decimal codes of characters; up to three times in a row. The text
 * itself is not among it. Bounded work, never throws.
 */
export function decodingsOf(text: string): Decoded {
  const seen = new Set([text]);
  const found: string[] = [];
  let left = maxDecodedChars;
  let cut = false;
  let round: readonly string[] = [text];
  for (let rounds = 0; rounds < maxRounds && round.length > 0 && !cut; rounds++) {
    const next: string[] = [];
    for (const decoded of round.flatMap(decodedOnce)) {
      if (decoded === '' || seen.has(decoded)) continue;
      if (decoded.length > left || found.length >= maxTexts) {
        cut = true;
        break;
      }
      left -= decoded.length;
      seen.add(decoded);
      found.push(decoded);
      next.push(decoded);
    }
    round = next;
  }
  return { texts: found, cut };
}

type Decoder = (text: string) => readonly string[];

/** Of what stands anywhere in a text: each answers with the whole text, or with nothing when there is nothing to decode. */
const unescaping: readonly Decoder[] = [
  plainLetters,
  unescaped,
  percentDecoded,
  entitiesDecoded,
  printableDecoded,
  withoutMarkup,
  spokenSigns,
];

function decodedOnce(text: string): readonly string[] {
  let all: string | undefined;
  for (const decode of unescaping) all = decode(all ?? text)[0] ?? all;
  // Where none of them has found something in turn, none has by itself.
  if (all === undefined) return tokensDecoded(text);
  const single = text.length > maxTriedChars ? [] : unescaping.flatMap((decode) => decode(text));
  return [all, ...single, ...tokensDecoded(text)];
}

// eslint-disable-next-line no-control-regex
const plain = /^[\u0000-\u007f]*$/;

const unseen = /[\p{Cf}\p{Variation_Selector}\u034F]/gu;

/** Without invisible characters, and letters in their plain form: so that codes in full width, or with joiners in them, are codes. */
function plainLetters(text: string): readonly string[] {
  return plain.test(text) ? [] : [text.normalize('NFKC').replaceAll(unseen, '')];
}

const escapes =
  /\\(?:u\{([0-9a-f]{1,6})\}|u(?:0{4})?([0-9a-f]{4})|x([0-9a-f]{2})|([0-7]{3})|([^ux0-7]))|(?:%u|\bU\+)([0-9a-f]{4,5})\b ?/gi;
const controls: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', '\n': '' };

/** `\n`, `\u0061`, `\x61`, `\141`, `\u{61}`, `%u0061`: as JSON, JavaScript and shells write characters. */
function unescaped(text: string): readonly string[] {
  if (!hasSome(text, '\\', '%', '+')) return [];
  if (!text.includes('\\') && !/%u|u\+/i.test(text)) return [];
  return [
    text.replaceAll(escapes, (whole, braced, unicode, hex, octal, letter: string | undefined, percent) => {
      if (letter !== undefined) return controls[letter] ?? letter;
      const code =
        octal === undefined ? Number.parseInt(braced ?? unicode ?? hex ?? percent, 16) : Number.parseInt(octal, 8);
      return characterOf(code) ?? whole;
    }),
  ];
}

/** Far quicker than a search by pattern, which most texts are spared so. */
function hasSome(text: string, ...marks: readonly string[]): boolean {
  return marks.some((mark) => text.includes(mark));
}

const mailSigns = /\s{0,2}(?:[[({<]\s?(?:at|@)\s?[\])}>]|\bat\b(?=\s{1,2}[\p{L}\p{N}-]{1,64}\s{1,2}dot\b))\s{0,2}/giu;
const dots = /\s{0,2}(?:[[({<]\s?(?:dot|\.)\s?[\])}>]|(?<=\S\s{1,2})\bdot\b(?=\s{1,2}\S))\s{0,2}/gi;

/** `eve (at) shop (dot) example`: as people write addresses that no machine should find. */
function spokenSigns(text: string): readonly string[] {
  const isBracketed = hasSome(text, '[', '(', '{', '<') && /[[({<]\s*(?:at|@)/i.test(text);
  if (!isBracketed && !text.toLowerCase().includes('dot')) return [];
  return /\bat\b[^\n]{1,80}\bdot\b|[[({<]\s*(?:dot|at|@)\s*[\])}>]/i.test(text)
    ? [text.replaceAll(mailSigns, '@').replaceAll(dots, '.')]
    : [];
}

/** What a reader sees of HTML and Markdown: the words without tags, comments and the targets of links. */
function withoutMarkup(text: string): readonly string[] {
  if (!hasSome(text, '<', '](') || !/<[a-z!/]|\]\(/i.test(text)) return [];
  return [
    text
      .replaceAll(/<!--[^<>]{0,1000}-->/g, '')
      .replaceAll(/<\/?[a-z][^<>]{0,1000}>/gi, '')
      .replaceAll(/\]\([^()\s]{0,1000}\)/g, ']'),
  ];
}

/** Every escape that is one, the others as they stand. */
function percentDecoded(text: string): readonly string[] {
  if (!text.includes('%') || !/%[0-9a-f]{2}/i.test(text)) return [];
  return [text.replaceAll('+', ' ').replaceAll(/(?:%[0-9a-f]{2})+/gi, (run) => bytesText(run.replaceAll('%', '')))];
}

/** Quoted printable, as mails have it: `=41`, and lines that go on behind a `=`. */
function printableDecoded(text: string): readonly string[] {
  if (!text.includes('=') || !/=(?:[0-9A-F]{2}|\r?\n)/.test(text)) return [];
  return [text.replaceAll(/=\r?\n/g, '').replaceAll(/(?:=[0-9A-F]{2})+/g, (run) => bytesText(run.replaceAll('=', '')))];
}

const entities = /&(?:#x([0-9a-f]{1,6})|#([0-9]{1,7})|([a-z]{2,8}));?/gi;
const accents = /^([a-z])(?:uml|acute|grave|circ|tilde|ring|cedil|slash|caron)$/i;
const named: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: ' ',
  commat: '@',
  period: '.',
  sol: '/',
  colon: ':',
  num: '#',
  lowbar: '_',
  plus: '+',
  hyphen: '-',
  szlig: 'ß',
  aelig: 'æ',
  oelig: 'œ',
  shy: '',
  zwj: '',
  zwnj: '',
};

function entitiesDecoded(text: string): readonly string[] {
  if (!text.includes('&') || !/&#|&[a-z]{2,8};/i.test(text)) return [];
  return [
    text.replaceAll(
      entities,
      (whole, hex: string | undefined, decimal: string | undefined, name: string | undefined) => {
        if (name === undefined) {
          const code = hex === undefined ? Number.parseInt(decimal ?? '', 10) : Number.parseInt(hex, 16);
          return characterOf(code) ?? whole;
        }
        const known = name.toLowerCase();
        return Object.hasOwn(named, known) ? (named[known] ?? '') : (accents.exec(name)?.[1] ?? whole);
      },
    ),
  ];
}

const base32 = /[A-Z2-7]{16,}={0,6}/gi;
const hex = /(?:(?:0x|\\x|%)?[0-9a-f]{2}[\s:,;|._-]{0,2}){7,}(?:0x|\\x|%)?[0-9a-f]{2}/gi;
const binary = /(?:[01]{8}[\s,;]{0,2}){7,}[01]{8}/g;
const decimal = /(?:\b\d{2,5}[^\d.]{1,8}){7,}\d{2,5}\b/g;
const spaced = /(?:[A-Za-z0-9+/_-][ .,|]){15,}[A-Za-z0-9+/_=-]+/g;
const css = /(?:\\[0-9a-f]{1,6}\s?){8,}/gi;

/** What stands in tokens of their own kind of characters. */
function tokensDecoded(text: string): readonly string[] {
  const places = codePlaces(text);
  return [
    ...places.base64.flatMap(base64Decoded),
    ...places.long.flatMap((run) => matches(run, base32)).flatMap((token) => readable(base32Bytes(token))),
    ...places.hex.flatMap((part) => matches(part, hex)).flatMap((token) => readable(hexBytes(token))),
    ...places.hex
      .flatMap((part) => matches(part, binary))
      .flatMap((token) => readable(codes(token.match(/[01]{8}/g), 2))),
    ...(places.hasNumbers ? matches(text, decimal) : []).flatMap((token) => charactersIn(token, /\d+/g, 10)),
    ...(places.hasSpaced ? matches(text, spaced) : []).flatMap((token) =>
      base64Decoded(token.replaceAll(/[ .,|]/g, '')),
    ),
    ...(places.hasEscapes ? matches(text, css) : []).flatMap((token) => charactersIn(token, /[0-9a-f]{1,6}/gi, 16)),
    ...(text.length > maxTriedChars ? [] : base64Decoded(text.replaceAll(/[^A-Za-z0-9+/]/g, ''))),
  ];
}

function matches(text: string, pattern: RegExp): readonly string[] {
  return text.match(pattern) ?? [];
}

function charactersIn(token: string, code: RegExp, radix: number): readonly string[] {
  const text = charactersOf(matches(token, code).map((one) => Number.parseInt(one, radix)));
  return isText(text) ? [text] : [];
}

/** Numbers that are codes of readable characters, as these characters; otherwise nothing. */
export function charactersOf(numbers: readonly number[]): string {
  const isCode = (code: number) => code === 9 || code === 10 || code === 13 || (code >= 32 && code <= 0x10ffff);
  return numbers.every(isCode) ? numbers.map((code) => characterOf(code) ?? '').join('') : '';
}

/** Also where the token is glued to something: it may begin at each of four places. */
function base64Decoded(token: string): readonly string[] {
  const packed = token.replaceAll(/\s/g, '');
  // A word of plain letters is none: it would decode into noise.
  if (!/[0-9+/_]/.test(packed) && (!/[a-z]/.test(packed) || !/[A-Z]/.test(packed))) return [];
  return [0, 1, 2, 3].flatMap((skip) => readable(Buffer.from(packed.slice(skip), 'base64')));
}

const alphabet32 = 'abcdefghijklmnopqrstuvwxyz234567';

function base32Bytes(token: string): Buffer {
  const bytes: number[] = [];
  let bits = 0;
  let value = 0;
  for (const letter of token.toLowerCase().replaceAll('=', '')) {
    value = ((value << 5) | alphabet32.indexOf(letter)) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push((value >> bits) & 0xff);
  }
  return Buffer.from(bytes);
}

function hexBytes(token: string): Buffer {
  return Buffer.from(token.replaceAll(/0x|\\x|[^0-9a-f]/gi, ''), 'hex');
}

function codes(tokens: readonly string[] | null, radix: number): Buffer {
  return Buffer.from((tokens ?? []).map((token) => Number.parseInt(token, radix)));
}

const minPrintable = 8;
/** Runs of at least so many printable characters. */
const printable = /[\t\n\r -~\u00a0-\ud7ff\ue000-\ufffc\u{10000}-\u{10ffff}]{8,}/gu;

/** The text in some bytes, in UTF-8 or UTF-16: whatever of it can be read. */
function readable(bytes: Buffer): readonly string[] {
  const runs = mayBeRead(bytes) ? (bytes.toString('utf8').match(printable) ?? []) : [];
  const isWide = bytes.length >= 16 && (bytes[1] === 0 || bytes[0] === 0);
  const wideRuns = isWide ? (wideText(bytes).match(printable) ?? []) : [];
  return [...runs, ...wideRuns].filter(isText);
}

/** Do eight characters of UTF-8 follow on each other? Most bytes are noise, and quicker left than read. */
function mayBeRead(bytes: Buffer): boolean {
  let run = 0;
  for (let at = 0; at < bytes.length; run++) {
    const units = unitsOfCharacter(bytes, at);
    if (units === 0) run = -1;
    else if (run === minPrintable - 1) return true;
    at += units || 1;
  }
  return false;
}

/** How many bytes the character has that begins here. 0: none does. */
function unitsOfCharacter(bytes: Buffer, at: number): number {
  const byte = bytes[at] as number;
  if (byte < 0x80) return byte >= 0x20 || byte === 9 || byte === 10 || byte === 13 ? 1 : 0;
  const units = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
  if (byte < 0xc2 || byte > 0xf4) return 0;
  for (let next = at + 1; next < at + units; next++) if (((bytes[next] ?? 0) & 0xc0) !== 0x80) return 0;
  return units;
}

function wideText(bytes: Buffer): string {
  const even = bytes.subarray(0, bytes.length & ~1);
  return (bytes[0] === 0 ? Buffer.from(even).swap16() : even).toString('utf16le');
}

/** Noise has few letters and spaces. */
function isText(run: string): boolean {
  const letters = run.match(/[\p{L}\p{N}\p{M}\p{Cf}\s_@.:/,\\%&;#=-]/gu)?.length ?? 0;
  return letters >= run.length * 0.4;
}

function bytesText(hex: string): string {
  const bytes = Buffer.from(hex, 'hex');
  const text = bytes.toString('utf8');
  return text.includes('\uFFFD') ? bytes.toString('latin1') : text;
}

function characterOf(code: number): string | undefined {
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : undefined;
}

/** A text backwards, and with each letter half the alphabet on: too cheap a trick to let pass. */
export function turned(text: string): readonly string[] {
  if (text.length > maxTriedChars) return [];
  if (!plain.test(text)) return [Array.from(text).toReversed().join(''), text.replaceAll(/[a-z]+/gi, halfOn)];
  return [Buffer.from(Buffer.from(text, 'latin1').toReversed()).toString('latin1'), halfOn(text)];
}

/** Of a text of plain characters. */
function halfOn(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  for (let at = 0; at < bytes.length; at++) bytes[at] = turnedLetters[bytes[at] as number] as number;
  return bytes.toString('latin1');
}

const turnedLetters = Uint8Array.from({ length: 0x80 }, (_, code) => {
  const isLetter = /[a-z]/i.test(String.fromCharCode(code));
  return isLetter ? code + ((code | 0x20) < 0x6e ? 13 : -13) : code;
});

/** The JSON value in a text that is one, or looks like one; undefined where there is none. */
export function jsonWithin(text: string): unknown {
  const trimmed = text.trim();
  return /^[[{"]/.test(trimmed) ? jsonOr(trimmed) : undefined;
}
