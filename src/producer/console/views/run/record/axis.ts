import type { Row, Waterfall } from './waterfall.ts';

/** Time from left (0) to right (1). What nothing was done in takes little room, so that the rest has enough. */
export interface Axis {
  readonly at: (ms: number) => number;
  /** The time at a place. */
  readonly timeAt: (place: number) => number;
  /** Stretches that are drawn shorter than they were. */
  readonly folds: readonly Span[];
}

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Shorter pauses are shown as they were. */
const leastFoldShare = 0.1;
const leastFoldMs = 2_000;
/** What a folded pause takes of the width. */
const foldWidth = 0.03;

const idleKinds: ReadonlySet<Row['kind']> = new Set(['queue', 'segment', 'recovery', 'wait']);

/** As it was: every second is as long as every other. */
export function plainAxis({ fromMs, toMs }: Waterfall): Axis {
  const whole = toMs - fromMs;
  return { at: (ms) => (ms - fromMs) / whole, timeAt: (place) => fromMs + place * whole, folds: [] };
}

/** With long pauses folded; as it was, where there is none. */
export function foldedAxis(waterfall: Waterfall): Axis {
  const folds = longPauses(waterfall);
  if (folds.length === 0) return plainAxis(waterfall);
  const pieces = piecesOf(waterfall, folds);
  const at = (ms: number) => {
    const piece = pieces.findLast(({ fromMs }) => fromMs <= ms) ?? pieces[0];
    if (!piece) return 0;
    const share = Math.min(1, Math.max(0, (ms - piece.fromMs) / Math.max(1, piece.toMs - piece.fromMs)));
    return piece.from + share * piece.width;
  };
  const timeAt = (place: number) => {
    const piece = pieces.findLast(({ from }) => from <= place) ?? pieces[0];
    if (!piece) return waterfall.fromMs;
    return piece.fromMs + ((place - piece.from) / piece.width) * (piece.toMs - piece.fromMs);
  };
  return { at, timeAt, folds };
}

/** Times in which no step, attempt, call or other run went on, longer than a tenth of the whole. */
function longPauses({ rows, fromMs, toMs }: Waterfall): Span[] {
  const least = Math.max(leastFoldMs, (toMs - fromMs) * leastFoldShare);
  const busy = rows.filter(({ kind }) => !idleKinds.has(kind) && kind !== 'step').sort((a, b) => a.fromMs - b.fromMs);
  const pauses: Span[] = [];
  let until = fromMs;
  for (const row of [...busy, { fromMs: toMs, toMs }]) {
    if (row.fromMs - until >= least) pauses.push({ fromMs: until, toMs: row.fromMs });
    until = Math.max(until, row.toMs);
  }
  return pauses;
}

function piecesOf({ fromMs, toMs }: Waterfall, folds: readonly Span[]) {
  const foldedMs = folds.reduce((sum, fold) => sum + fold.toMs - fold.fromMs, 0);
  const perMs = (1 - folds.length * foldWidth) / Math.max(1, toMs - fromMs - foldedMs);
  const pieces: (Span & { readonly from: number; readonly width: number })[] = [];
  let place = 0;
  const add = (span: Span, width: number) => {
    if (width <= 0) return;
    pieces.push({ ...span, from: place, width });
    place += width;
  };
  let at = fromMs;
  for (const fold of folds) {
    add({ fromMs: at, toMs: fold.fromMs }, (fold.fromMs - at) * perMs);
    add(fold, foldWidth);
    at = fold.toMs;
  }
  add({ fromMs: at, toMs }, (toMs - at) * perMs);
  return pieces;
}
