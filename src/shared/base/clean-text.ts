import { maxLevels } from './json-depth.ts';

/** Text as all code inside takes it: whole characters, and no NUL. What is neither becomes U+FFFD. */
export function cleanText(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed();
  return whole.includes('\0') ? whole.replaceAll('\0', '\uFFFD') : whole;
}

/**
 * A JSON value whose texts are clean, those of its keys too, and which is at most 64 levels deep: a text stands for what is
 * deeper. The very same value where there was nothing to do.
 */
export function cleanJson<T>(value: T): T {
  return clean(value, 0) as T;
}

function clean(value: unknown, level: number): unknown {
  if (typeof value === 'string') return cleanText(value);
  if (value === null || typeof value !== 'object') return value;
  if (level === maxLevels) return '[too deep]';
  if (Array.isArray(value)) {
    const items = value.map((item) => clean(item, level + 1));
    return items.every((item, index) => Object.is(item, value[index])) ? value : items;
  }
  const before = Object.entries(value);
  const after = before.map(([name, item]) => [cleanText(name), clean(item, level + 1)] as const);
  const isSame = after.every(([name, item], index) => {
    const [oldName, oldItem] = before[index] ?? [];
    return name === oldName && Object.is(item, oldItem);
  });
  // Entries, because an assignment to a field called __proto__ would be no field.
  return isSame ? value : Object.fromEntries(after);
}
