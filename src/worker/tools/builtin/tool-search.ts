import { z } from 'zod';
import { definePackageTool } from '../define.ts';
import { lessTrusted, type TrustClass } from '../../../shared/contract/agent/trust.ts';
import { ToolOutput, type CatalogueEntry, type HostContext, type ResultOrigin, type Tool } from '../tool.ts';

const inputSchema = z.strictObject({
  query: z.string().min(1).max(1_024).describe('Words about what the tool should do, or its name.'),
  k: z.int().min(1).max(15).default(5).describe('How many tools to answer at most.'),
});

/**
 * The tool by which a model finds tools that it does not see yet. What it finds may be called from the next step
 * on.
 */
export function createToolSearch(): Tool {
  return definePackageTool({
    name: 'tool_search',
    description:
      'Finds more tools by what they do. Answers their names, descriptions and arguments, best first. You may call them from the next step on.',
    inputSchema,
    effect: 'read',
    execute({ query, k }, context) {
      const { catalogue, promote } = context as HostContext;
      const deferred = catalogue().filter((entry) => entry.deferred);
      const found = rankTools(deferred, query).slice(0, k);
      promote(found.map(({ entry }) => entry.name));
      const value = found.map(({ entry: { name, description, parameters: inputSchema }, score }) => {
        return { name, description, inputSchema, score };
      });
      return new ToolOutput(value, {
        origin: originOfEntries(
          'tool_search',
          found.map(({ entry }) => entry),
        ),
      });
    },
  });
}

/** The words about tools are trusted no further than the least trusted of the tools. */
export function originOfEntries(toolName: string, entries: readonly CatalogueEntry[]): ResultOrigin {
  const trust = entries.reduce<TrustClass>((least, entry) => lessTrusted(entry.trust, least), 'built-in');
  return { toolName, trust, sensitivity: 'public' };
}

/** What a word of the query is worth, by where it is found. */
const worth = { name: 4, parameter: 2, description: 1 } as const;
/** For a query that is the name itself. */
const exactName = 100;

/** The tools that fit the words of a query, best first and then by name. Without words: all, by name. */
export function rankTools(catalogue: readonly CatalogueEntry[], query: string) {
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
  const parameters = Object.keys(entry.parameters['properties'] ?? {}).join(' ');
  const places = [
    [wordsOf(entry.name), worth.name],
    [wordsOf(parameters), worth.parameter],
    [wordsOf(entry.description), worth.description],
  ] as const;
  const pointsOf = (word: string) =>
    places.reduce((sum, [among, points]) => sum + (among.some((one) => fits(one, word)) ? points : 0), 0);
  return words.reduce((sum, word) => sum + pointsOf(word), 0);
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
