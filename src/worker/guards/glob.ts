/**
 * Does the name match the pattern? `*` stands for any characters, also none, `?` for one; everything else for itself, in
 * its own case. Takes at most (length of the pattern) x (length of the name) steps, whatever the two are.
 */
export function matchesGlob(pattern: string, name: string): boolean {
  const [wanted, given] = [Array.from(pattern), Array.from(name)];
  let [p, n] = [0, 0];
  // Where the last star stands, and how much of the name it has taken so far.
  let [star, taken] = [-1, 0];
  while (n < given.length) {
    // The star comes first: a name may hold one, too.
    if (wanted[p] === '*') [star, taken, p] = [p, n, p + 1];
    else if (p < wanted.length && (wanted[p] === '?' || wanted[p] === given[n])) [p, n] = [p + 1, n + 1];
    else if (star !== -1) {
      taken++;
      [p, n] = [star + 1, taken];
    } else return false;
  }
  while (wanted[p] === '*') p++;
  return p === wanted.length;
}
