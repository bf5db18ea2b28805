import { isRecord, jsonText } from '../../../shared/base/json.ts';
import { withoutOrders } from '../../guards/sanitise.ts';
import { dataKeywords, schemaMaps, textKeywords } from './schema.ts';

/** What a server says about one of its tools, as models see it. */
export interface CleanTexts {
  readonly description: string;
  readonly parameters: Record<string, unknown>;
  /** What was found in them, for the log. */
  readonly findings: readonly string[];
}

type Fields = Record<string, unknown>;

/**
 * The texts of a stranger without what speaks to a model: sentences like that, hidden characters and marker lines are
 * taken out of descriptions and titles; any other text of the schema that has some is left out as a whole, because half
 * of a value would be another value. The server checks arguments by its own schema all the same. Undefined where a name
 * has some: without its name nothing can be called.
 */
export function cleanTexts(name: string, description: string, parameters: Fields): CleanTexts | undefined {
  if (withoutOrders(spoken([name, ...namesIn(parameters)])).findings.length > 0) return undefined;
  // In one text nothing is overlooked that is in a part of it, and most servers have nothing to clean.
  const { findings } = withoutOrders(`${description}\n${jsonText(parameters)}`);
  if (findings.length === 0) return { description, parameters, findings };
  return {
    description: withoutOrders(description).text,
    parameters: cleaned(parameters) as Fields,
    findings,
  };
}

/** Names as a reader would say them. */
function spoken(names: readonly string[]): string {
  return names.map((name) => name.replaceAll(/[_-]+/g, ' ').replaceAll(/(\p{Ll})(\p{Lu})/gu, '$1 $2')).join('.\n');
}

function namesIn(schema: unknown): string[] {
  if (Array.isArray(schema)) return schema.flatMap(namesIn);
  if (!isRecord(schema)) return [];
  return Object.entries(schema).flatMap(([keyword, value]) => {
    if (dataKeywords.has(keyword)) return [];
    if (!schemaMaps.has(keyword) || !isRecord(value)) return namesIn(value);
    return [...Object.keys(value), ...Object.values(value).flatMap(namesIn)];
  });
}

function cleaned(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(cleaned);
  if (!isRecord(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
      if (typeof value === 'string' && textKeywords.has(keyword)) return [[keyword, withoutOrders(value).text]];
      if (keyword === 'enum' || keyword === 'examples') return listOf(keyword, value);
      if (schemaMaps.has(keyword) && isRecord(value))
        return [[keyword, Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, cleaned(inner)]))]];
      if (typeof value === 'string' || dataKeywords.has(keyword)) return speaks(value) ? [] : [[keyword, value]];
      return [[keyword, cleaned(value)]];
    }),
  );
}

/** Those that are left; without any the keyword would allow nothing. */
function listOf(keyword: string, value: unknown): [string, unknown][] {
  const kept = Array.isArray(value) ? value.filter((one) => !speaks(one)) : [];
  return kept.length > 0 ? [[keyword, kept]] : [];
}

function speaks(value: unknown): boolean {
  return withoutOrders(jsonText(value)).findings.length > 0;
}
