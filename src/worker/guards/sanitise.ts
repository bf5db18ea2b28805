import type { Sanitization } from '../../shared/contract/agent/agent.ts';
import type { TrustClass } from '../../shared/contract/agent/trust.ts';
import { clip } from '../../shared/base/text.ts';
import { assertNever } from '../../shared/base/errors.ts';
import { fold, type Folded, hiddenFindings, withoutHidden } from './folded-text.ts';
import { injectionPatterns } from './injection-patterns.ts';

/** Characters of a result that are looked at. The rest is never handed on where it would have to be clean. */
export const maxScannedChars = 131_072;
const maxFindings = 32;
const maxSentenceChars = 240;
const maxRounds = 4;

/** Stands where something was taken out. */
export const redactionToken = '[removed by sanitiser]';
const markerToken = '[marker removed]';

/** Of a tool's result, or of a text that a model made from untrusted content. */
export type OriginTrust = TrustClass | 'derived-untrusted';

export interface Origin {
  readonly trust: OriginTrust;
  /** Default: what the trust class asks for. */
  readonly treatment?: Sanitization | undefined;
  readonly toolName: string;
  /** In both marker lines: 1 to 64 of A-Z a-z 0-9 _ -, not to be guessed by who wrote the text. */
  readonly nonce: string;
}

export interface Sanitised {
  readonly text: string;
  /** Names of what was found, each once, at most 32. `scan_cut`: the text was longer than what is looked at. */
  readonly findings: readonly string[];
  /** `block` only: the text is empty then. */
  readonly blocked: boolean;
}

/** What the trust in a result asks for. */
export const treatmentOf: Readonly<Record<OriginTrust, Sanitization>> = {
  'built-in': 'pass',
  'user-defined': 'flag',
  'trusted-skill': 'flag',
  external: 'wrap',
  'untrusted-skill': 'wrap',
  'mcp-derived': 'wrap',
  'web-search': 'wrap',
  'derived-untrusted': 'wrap',
};

/**
 * Treats a tool's result before a model reads it. `pass` and `flag` never change the text, `block` neither as long as
 * nothing is found. `wrap` takes out sentences that speak to the model, invisible characters and marker lines in
 * the text, and puts marker lines around the rest; what was wrapped with the same nonce already gets no second pair. Work
 * grows with the text and ends at {@link maxScannedChars}: `wrap` leaves out what lies behind, `block` refuses it, `flag`
 * says so. Never throws.
 */
export function sanitise(text: string, origin: Origin): Sanitised {
  const treatment = origin.treatment ?? treatmentOf[origin.trust];
  switch (treatment) {
    case 'pass':
      return { text, findings: [], blocked: false };
    case 'flag':
      return { text, findings: namesOf(scan(text)), blocked: false };
    case 'block': {
      const findings = namesOf(scan(text));
      return findings.length > 0 ? { text: '', findings, blocked: true } : { text, findings, blocked: false };
    }
    case 'wrap':
      return wrapped(text, origin);
    default:
      return assertNever(treatment);
  }
}

/**
 * A text that is shown without marker lines, like the description of a server's tool: what `wrap` takes out is taken out of it,
 * and what lies behind {@link maxScannedChars} as well. The same text when nothing is found. Never throws.
 */
export function withoutOrders(text: string): Pick<Sanitised, 'text' | 'findings'> {
  const seen = clip(text, maxScannedChars);
  const { text: clean, found } = cleaned(seen);
  if (seen.length < text.length) found.push({ name: 'scan_cut' });
  return { text: clean, findings: namesOf(found) };
}

/** Context that a piece of a long text is looked at with, from the piece before it. */
const overlapChars = 2_048;

/**
 * A text of any length as `wrap` makes it, in pieces that overlap: an order that stands where two of them meet is found in the second.
 * For files of an input, which are read as a whole or not at all.
 */
export function wrappedWhole(text: string, origin: Origin): string {
  const [begin, end] = markersOf(origin);
  const pieceChars = maxScannedChars - overlapChars;
  const done: string[] = [];
  let tail = '';
  for (let at = 0; at < text.length;) {
    const piece = clip(text.slice(at, at + pieceChars), pieceChars);
    at += piece.length;
    const { text: clean } = cleaned((tail + piece).replaceAll(origin.nonce, markerToken));
    const keptTo = Math.max(0, clean.length - overlapChars);
    done.push(clean.slice(0, keptTo));
    tail = clean.slice(keptTo);
  }
  return `${begin}\n${done.join('')}${tail}\n${end}`;
}

interface Finding {
  readonly name: string;
  /** The part of the original to take out; absent where the whole text is concerned. */
  readonly range?: Range & { readonly token: string };
}

function scan(text: string): Finding[] {
  const seen = clip(text, maxScannedChars);
  const found = findIn(seen);
  return seen.length < text.length ? [...found, { name: 'scan_cut' }] : found;
}

function findIn(text: string): Finding[] {
  const folded = fold(text);
  const rangeOf = ({ from, to }: Range) => ({ from: folded.originalAt(from), to: folded.originalAt(to) });
  return [
    ...hiddenFindings(text).map((name) => ({ name })),
    ...markerFindings(folded),
    ...sentenceFindings(folded, text),
    ...spacedInstructions(folded).map((range) => orderAt('spaced_instruction', rangeOf(range))),
    ...encodedInstructions(text).map((range) => orderAt('encoded_instruction', range)),
  ];
}

function orderAt(name: string, range: Range): Finding {
  return { name, range: { ...range, token: redactionToken } };
}

function namesOf(found: readonly Finding[]): string[] {
  return [...new Set(found.map(({ name }) => name))].slice(0, maxFindings);
}

/** Is there anything in the text that speaks to a model? */
function speaksToModel(text: string): boolean {
  const { text: folded } = fold(text);
  return injectionPatterns().some(({ expression }) => folded.search(expression) !== -1);
}

/** From where a pattern begins to the end of its sentence: what belongs to an order is often behind its first words. */
function sentenceFindings(folded: Folded, original: string): Finding[] {
  return injectionPatterns().flatMap(({ name, expression }) =>
    [...folded.text.matchAll(expression)].map(({ index, 0: match }): Finding => {
      const to = sentenceEnd(original, folded.originalAt(index + match.length));
      return orderAt(name, { from: folded.originalAt(index), to });
    }),
  );
}

/** The end of the sentence, of the line or of the JSON text, whichever comes first; at most 240 characters on. */
function sentenceEnd(text: string, from: number): number {
  const rest = text.slice(from, from + maxSentenceChars);
  const end = rest.search(/[.!?](?=\s|$|["\\<])|[。！？\r\n"<]|\\[nr"]/);
  return from + (end === -1 ? rest.length : end);
}

const markerWords = /untrusted[ _-]{0,3}content/g;
const opening = /(?:(?:<|&lt;){2,16}|\[{2,16}|\({2,16}|\{{2,16}|={3,16}|-{3,16})[^\n<>]{0,24}$/;
const closing = /^[^\n<>]{0,200}?(?:(?:>|&gt;){2,16}|\]{2,16}|\){2,16}|\}{2,16}|={3,16}|-{3,16})/;
const reachBefore = 128;
const reachBehind = 320;

/** What looks like one of our own marker lines, whatever brackets it is written with. */
function markerFindings(folded: Folded): Finding[] {
  return [...folded.text.matchAll(markerWords)].flatMap(({ index, 0: words }): Finding[] => {
    const end = index + words.length;
    const before = opening.exec(folded.text.slice(Math.max(0, index - reachBefore), index));
    const behind = closing.exec(folded.text.slice(end, end + reachBehind));
    if (!before && !behind) return [];
    const from = folded.originalAt(index - (before?.[0].length ?? 0));
    const to = folded.originalAt(end + (behind?.[0].length ?? 0));
    return [{ name: 'marker', range: { from, to, token: markerToken } }];
  });
}

function wrapped(text: string, origin: Origin): Sanitised {
  const [begin, end] = markersOf(origin);
  const inner =
    text.startsWith(`${begin}\n`) && text.endsWith(`\n${end}`) && text.length > begin.length + end.length + 1;
  const content = inner ? text.slice(begin.length + 1, -(end.length + 1)) : text;
  const seen = clip(content, maxScannedChars);
  const { text: clean, found } = cleaned(seen.replaceAll(origin.nonce, markerToken));
  const missing = content.length - seen.length;
  if (missing > 0) found.push({ name: 'scan_cut' });
  const note = missing > 0 ? `\n[${missing} more characters were left out unread]` : '';
  return { text: `${begin}\n${clean}${note}\n${end}`, findings: namesOf(found), blocked: false };
}

/** Again after each change, because what is taken out may have stood in the way of something else. */
function cleaned(text: string): { readonly text: string; readonly found: Finding[] } {
  const found: Finding[] = [];
  let clean = text;
  for (let round = 0; round < maxRounds; round++) {
    const before = clean;
    const now = findIn(clean);
    found.push(...now);
    clean = withoutHidden(withoutRanges(clean, now));
    if (clean === before) break;
  }
  return { text: clean, found };
}

function markersOf({ trust, toolName, nonce }: Origin): readonly [begin: string, end: string] {
  const about = `trust="${trust}" tool="${toolName.replaceAll(/[^A-Za-z0-9_.:/-]/g, '_').slice(0, 128)}" id="${nonce}"`;
  return [`<<<UNTRUSTED_CONTENT ${about}>>>`, `<<<END_UNTRUSTED_CONTENT ${about}>>>`];
}

function withoutRanges(text: string, found: readonly Finding[]): string {
  const ranges = found.flatMap(({ range }) => range ?? []).sort((a, b) => a.from - b.from || b.to - a.to);
  const parts: string[] = [];
  let at = 0;
  for (const { from, to, token } of ranges) {
    if (to <= at) continue;
    if (from >= at) parts.push(text.slice(at, from), token);
    at = to;
  }
  return parts.join('') + text.slice(at);
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Single letters with one sign between each two. */
const spelledOut = /(?<![\p{L}\p{N}])(?:[a-z][ .*_-]{1,3}){8,400}[a-z](?![\p{L}\p{N}])/gu;
const spelledWords =
  /(?:ignore|disregard|forget|override|bypass|reveal).{0,32}?(?:instruction|prompt|rules|directive|guideline)/;

/** Orders that are spelled out letter by letter: `i g n o r e …`. Places in the folded text. */
function spacedInstructions({ text }: Folded): Range[] {
  return [...text.matchAll(spelledOut)].flatMap(({ index, 0: match }) => {
    const letters = match.replaceAll(/[^a-z]/g, '');
    return spelledWords.test(letters) ? [{ from: index, to: index + match.length }] : [];
  });
}

const minEncoded = 32;
const encoded = /(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{32,8192}={0,2}/g;
const maxDecodedChars = 65_536;

/** Base64 of texts that the check finds something in; no more than 64 KB of it is read. Places in the text itself. */
function encodedInstructions(text: string): Range[] {
  if (text.length < minEncoded) return [];
  const found: Range[] = [];
  let left = maxDecodedChars;
  for (const { index, 0: match } of text.matchAll(encoded)) {
    if (left <= 0) break;
    const decoded = Buffer.from(match, 'base64').toString('utf8').slice(0, left);
    if (!isReadable(decoded)) continue;
    left -= decoded.length;
    if (speaksToModel(decoded)) found.push({ from: index, to: index + match.length });
  }
  return found;
}

/** Bytes that are no text decode into something with control characters or without valid UTF-8. */
function isReadable(text: string): boolean {
  // eslint-disable-next-line no-control-regex
  return !/[\u0000-\u0008\u000E-\u001F\uFFFD]/.test(text.slice(0, -1));
}
