import type { FlowSource } from '../../../shared/contract/message.ts';
import { isEdge, joined, stringOf, type Form } from './normalise.ts';
import type { Span } from './span.ts';
import { Needle } from './spans.ts';
import { TrackedText } from './tracked-text.ts';

/** What a run has read and sent, as far as passages are concerned. */
export interface PassageMemory {
  readonly untrusted: readonly {
    readonly tracked: TrackedText;
    readonly source: FlowSource;
    readonly sentBefore: number;
  }[];
  readonly sent: readonly { readonly text: string }[];
  readonly vouching: readonly TrackedText[];
  vouchesForPassage(plain: string): boolean;
}

/** What a call sends: its units, and which argument each of them is of. Undefined: of none, an earlier call has sent it. */
export interface SentText {
  readonly units: Uint16Array;
  readonly argumentAt: (unit: number) => object | undefined;
}

/** A passage of an untrusted text that the units of a needle repeat. */
export interface Passage {
  readonly source: FlowSource;
  /** The pieces of it that are in the needle itself; the others are in calls before. */
  readonly pieces: readonly Span[];
}

/** Pieces are one passage when there is no more between them in the untrusted text. */
const maxGap = 3;
/** Pieces of one argument are one passage when there is no more between them in the argument. */
const maxNoise = 32;
/** Beyond so many pieces of one text none is compared with trusted text any more: it counts as not vouched for. */
const maxCompared = 512;

/**
 * The passages of untrusted texts that weigh at least `minUnits` in what is sent now, together with short pieces that calls
 * before have sent. Pieces count from eight units on, in any order, when they touch in the untrusted text, and within one argument
 * when there is little between them; a single long word that both texts have is none. What
 * counts is only the part that no trusted text covers: pieces that stand in one as a whole do not, nor do those parts of a
 * piece that are themselves passages of trusted text. So a user's own words are no finding where a page has them as well, and
 * hide nothing that stands beside them. A passage that was long enough in an earlier call has been decided on there.
 */
export function passagesIn({ units, argumentAt }: SentText, memory: PassageMemory, minUnits: number): Passage[] {
  const needle = new Needle(units);
  const isNear = (a: Span, b: Span) => argumentAt(a.end - 1) !== argumentAt(b.end - 1) || distance(a, b) <= maxNoise;
  const sentFrom = new Map<number, Needle>();
  return memory.untrusted.flatMap(({ tracked, source, sentBefore }) => {
    const text = tracked.form.units;
    const counts = (span: Span) => span.to - span.from >= minUnits || isMoreThanWord(span, tracked.form);
    const isNew = (span: Span) => argumentAt(span.end - 1) !== undefined && counts(span);
    const own = unvouched(needle.spansIn(text).filter(isNew), text, memory);
    if (own.length === 0) return [];
    let sent = sentFrom.get(sentBefore);
    if (!sent) sentFrom.set(sentBefore, (sent = sentNeedle(memory, sentBefore)));
    const short = sent.spansIn(text).filter((span) => span.to - span.from < minUnits && counts(span));
    return clustersOf(own, unvouched(short, text, memory), isNear)
      .filter((cluster) => uncoveredUnits(cluster.ranges, text, memory, minUnits) >= minUnits)
      .map(({ pieces }) => ({ source, pieces }));
  });
}

/** Units between two pieces of the needle. */
function distance(a: Span, b: Span): number {
  return Math.max(b.end - (b.to - b.from) - a.end, a.end - (a.to - a.from) - b.end, 0);
}

/** The units of a text that no passage of trusted text covers. */
export function weightBeyondTrust(units: Uint16Array, memory: PassageMemory, minUnits: number): number {
  if (memory.vouchesForPassage(stringOf(units))) return 0;
  return uncoveredUnits([{ from: 0, to: units.length }], units, memory, minUnits);
}

function sentNeedle({ sent }: PassageMemory, from: number): Needle {
  return new Needle(joined(sent.slice(from).map(({ text }) => new TrackedText(text).form)).units);
}

/** Without the pieces that stand in a trusted text. */
export function unvouched(spans: readonly Span[], text: Uint16Array, memory: PassageMemory): readonly Span[] {
  return spans.filter(
    ({ from, to }, place) => place >= maxCompared || !memory.vouchesForPassage(stringOf(text.slice(from, to))),
  );
}

/** A piece is more than a word by chance when it is a part of one, or has so many units beside its longest word. */
const minBesideWord = 4;

function isMoreThanWord({ from, to }: Span, form: Form): boolean {
  let longest = 0;
  let begin = from;
  for (let at = from + 1; at <= to; at++) {
    if (at < to && !isEdge(form, at, false)) continue;
    longest = Math.max(longest, at - begin);
    begin = at;
  }
  if (longest === to - from) return !isEdge(form, from, false) || !isEdge(form, to, false);
  return to - from - longest >= minBesideWord;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

interface Cluster {
  readonly pieces: readonly Span[];
  /** Of all pieces, those of earlier calls too, in order and without overlaps. */
  readonly ranges: readonly Range[];
}

/** Pieces that touch, with at least one of the needle's own. */
function clustersOf(own: readonly Span[], sent: readonly Span[], isNear: (a: Span, b: Span) => boolean): Cluster[] {
  const all = [...own.map((piece) => ({ piece, isOwn: true })), ...sent.map((piece) => ({ piece, isOwn: false }))];
  all.sort((a, b) => a.piece.from - b.piece.from);
  const clusters: { pieces: Span[]; ranges: Range[]; to: number }[] = [];
  for (const { piece, isOwn } of all) {
    let cluster = clusters.at(-1);
    const before = cluster?.pieces.at(-1);
    const isApart = isOwn && before !== undefined && !isNear(before, piece);
    if (!cluster || isApart || piece.from > cluster.to + maxGap)
      clusters.push((cluster = { pieces: [], ranges: [], to: 0 }));
    if (isOwn) cluster.pieces.push(piece);
    const from = Math.max(piece.from, cluster.to);
    if (piece.to > from) cluster.ranges.push({ from, to: piece.to });
    cluster.to = Math.max(cluster.to, piece.to);
  }
  return clusters.filter(({ pieces }) => pieces.length > 0);
}

function uncoveredUnits(ranges: readonly Range[], text: Uint16Array, memory: PassageMemory, minUnits: number): number {
  const all = ranges.reduce((sum, { from, to }) => sum + to - from, 0);
  if (all < minUnits) return all;
  return ranges.reduce((sum, range) => sum + range.to - range.from - coveredUnits(range, text, memory, minUnits), 0);
}

function coveredUnits({ from, to }: Range, text: Uint16Array, memory: PassageMemory, minUnits: number): number {
  const units = text.slice(from, to);
  const needle = new Needle(units);
  const isCovered = new Uint8Array(units.length);
  const spans = memory.vouching.flatMap((trusted) => needle.spansIn(trusted.form.units));
  for (const span of spans.slice(0, maxCompared)) {
    const begin = span.end - (span.to - span.from);
    if (span.end - begin < minUnits || !memory.vouchesForPassage(stringOf(units.slice(begin, span.end)))) continue;
    isCovered.fill(1, begin, span.end);
  }
  return isCovered.reduce((sum, one) => sum + one, 0);
}
