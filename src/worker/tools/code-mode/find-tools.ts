import { rankTools } from '../rank.ts';
import type { CatalogueEntry } from '../tool.ts';
import { signatureOf } from './signature.ts';

const maxAnswerChars = 24_000;

/**
 * The tools that fit the words best, as TypeScript declarations, best first. Without words: all, by name. The text is
 * bounded and says what was left out.
 */
export function findTools(catalogue: readonly CatalogueEntry[], query: string, limit: number): string {
  const found = rankTools(catalogue, query);
  if (found.length === 0)
    return `No tool fits. There are ${catalogue.length}; an empty query lists the first ones by name.`;
  const shown: string[] = [];
  let room = maxAnswerChars;
  for (const { entry } of found.slice(0, limit)) {
    const signature = signatureOf(entry);
    if (shown.length > 0 && signature.length > room) break;
    room -= signature.length;
    shown.push(signature);
  }
  return [`// ${shown.length} of ${found.length} tools that fit`, ...shown].join('\n');
}
