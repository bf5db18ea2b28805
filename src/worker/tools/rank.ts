import type { CatalogueEntry } from './tool.ts';

/** What a word of the query is worth, by where it is found. */
const worth = { name: 4, parameter: 2, description: 1 } as const;
/** For a query that is the name itself. */
const exactName = 100;

export interface Ranked {
  readonly entry: CatalogueEntry;
  readonly score: number;
}

/** The tools that fit the words of a query, best first and then by name. Without words: all, by name. */
export function rankTools(catalogue: readonly CatalogueEntry[], query: string): readonly Ranked[] {
  const words = wordsOf(query);
  const name = query.trim().toLowerCase();
  return catalogue
    .map((entry) => ({
      entry,
      score: words.length === 0 ? 1 : scoreOf(entry, words) + (entry.name.toLowerCase() === name ? exactName : 0),
    }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score || (a.entry.name < b.entry.name ? -1 : 1));
}

function scoreOf(entry: CatalogueEntry, words: readonly string[]): number {
  const properties = entry.parameters['properties'];
  const places = [
    [wordsOf(entry.name), worth.name],
    [
      wordsOf(properties !== null && typeof properties === 'object' ? Object.keys(properties).join(' ') : ''),
      worth.parameter,
    ],
    [wordsOf(entry.description), worth.description],
  ] as const;
  return words.reduce(
    (sum, word) =>
      sum + places.reduce((all, [among, points]) => all + (among.some((one) => fits(one, word)) ? points : 0), 0),
    0,
  );
}

/** `files` is found by `file`, and `file` by `files`. */
function fits(one: string, word: string): boolean {
  return one === word || (word.length > 3 && one.startsWith(word)) || (one.length > 3 && word.startsWith(one));
}

/** `readFile_v2` is three words: read, file, v2. */
function wordsOf(text: string): string[] {
  const apart = text
    .slice(0, 4_000)
    .replaceAll(/(\p{Ll})(\p{Lu})/gu, '$1 $2')
    .toLowerCase();
  return [...new Set(apart.match(/[\p{L}\p{N}]+/gu))];
}
