import { isRecord } from '../../base/json.ts';

/** A value up to this length is its editor's as a whole; of a longer text only what differs is. */
const maxWholeChars = 256;

/**
 * What of these arguments does not come from those before: the strings and numbers that an editor has put in, as texts. A value
 * that was moved to another place is none of them.
 */
export function editedValues(edited: unknown, before: unknown): readonly string[] {
  const known = new Set(leavesOf(before).map(([, value]) => value));
  const places = new Map(leavesOf(before));
  return leavesOf(edited).flatMap(([path, value]) => {
    if (known.has(value)) return [];
    const own = value.length > maxWholeChars ? difference(value, places.get(path) ?? '') : value;
    return own.trim() === '' ? [] : [own];
  });
}

/** What stands between the beginning and the end that both texts have in common. */
function difference(text: string, before: string): string {
  const most = Math.min(text.length, before.length);
  let start = 0;
  while (start < most && text[start] === before[start]) start++;
  let end = 0;
  while (end < most - start && text.at(-1 - end) === before.at(-1 - end)) end++;
  return text.slice(start, text.length - end);
}

function leavesOf(value: unknown, path = ''): (readonly [path: string, value: string])[] {
  if (Array.isArray(value)) return value.flatMap((item, index) => leavesOf(item, `${path}.${index}`));
  if (isRecord(value)) return Object.entries(value).flatMap(([name, item]) => leavesOf(item, `${path}.${name}`));
  return typeof value === 'string' || typeof value === 'number' ? [[path, String(value)]] : [];
}
