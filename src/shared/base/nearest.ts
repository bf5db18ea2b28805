/** The name that was probably meant: the one of `names` that is most like `name`, or none that is like it at all. */
export function nearest(name: string, names: Iterable<string>): string | undefined {
  const written = name.toLowerCase().slice(0, maxChars);
  let best: string | undefined;
  // A third of the characters may be wrong, of short names one.
  let bestDistance = Math.max(1, Math.floor(written.length / 3)) + 1;
  for (const candidate of names) {
    if (candidate === name || Math.abs(candidate.length - written.length) >= bestDistance) continue;
    const distance = distanceBetween(written, candidate.toLowerCase());
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** `; did you mean X?`, or nothing. */
export function didYouMean(name: string, names: Iterable<string>): string {
  const found = nearest(name, names);
  return found === undefined ? '' : `; did you mean ${found}?`;
}

/** `there is no tool X; did you mean Y?; known are Y, Z`. */
export function thereIsNo(what: string, name: string, names: Iterable<string>): string {
  const known = [...names];
  const named = known.length > maxNamed ? [...known.slice(0, maxNamed), '…'] : known;
  return `there is no ${what} ${name}${didYouMean(name, known)}; known are ${named.join(', ') || 'none'}`;
}

const maxNamed = 50;
const maxChars = 128;

/** Characters to insert, remove, change, or swap with their neighbour until both are the same. */
function distanceBetween(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (last[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(change, (last[j] as number) + 1, (row[j - 1] as number) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        best = Math.min(best, (before[j - 2] as number) + 1);
      row.push(best);
    }
    [before, last] = [last, row];
  }
  return last[b.length] as number;
}
