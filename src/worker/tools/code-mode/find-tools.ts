import { rankTools } from '../rank.ts';
import type { CatalogueEntry } from '../tool.ts';
import { signatureOf } from './signature.ts';

const maxAnswerChars = 24_000;

export interface FoundTools {
  readonly text: string;
  /** Those that the text declares. */
  readonly entries: readonly CatalogueEntry[];
}

/**
 * The tools that fit the words best, as TypeScript declarations, best first. Without words: all, by name. The text is
 * bounded and says what was left out.
 */
export function findTools(catalogue: readonly CatalogueEntry[], query: string, limit: number): FoundTools {
  const found = rankTools(catalogue, query);
  if (found.length === 0) {
    const text = `No tool fits. There are ${catalogue.length}; an empty query lists the first ones by name.`;
    return { text, entries: [] };
  }
  const shown: string[] = [];
  const entries: CatalogueEntry[] = [];
  let room = maxAnswerChars;
  for (const { entry } of found.slice(0, limit)) {
    const signature = signatureOf(entry);
    if (shown.length > 0 && signature.length > room) break;
    room -= signature.length;
    shown.push(signature);
    entries.push(entry);
  }
  return { text: [`// ${shown.length} of ${found.length} tools that fit`, ...shown].join('\n'), entries };
}
