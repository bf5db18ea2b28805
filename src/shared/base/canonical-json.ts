import { jsonText } from './json-text.ts';

/** JSON with sorted keys, so that the same value in another order of fields is the same text. */
export function canonicalJson(value: unknown): string {
  return jsonText(value, (_, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}
