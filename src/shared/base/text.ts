import { maxLevels } from './json.ts';

const headShare = 0.7;

/** Is the text within so many bytes? Counts only when it has to. */
export function isWithin(text: string, maxBytes: number): boolean {
  // A character has at least one byte and at most three for each unit, so most texts need no counting.
  if (text.length * 3 <= maxBytes) return true;
  return text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes;
}

/**
 * The text within so many bytes: the beginning and the end with a marker between them that says how much there was. Cuts
 * only between characters.
 */
export function keepEnds(text: string, maxBytes: number): string {
  const whole = text.toWellFormed();
  if (isWithin(whole, maxBytes)) return whole;
  const marker = `\n[… ${Buffer.byteLength(whole)} bytes in all, the middle was cut …]\n`;
  const room = maxBytes - Buffer.byteLength(marker);
  if (room < 0) return firstBytes(whole, maxBytes);
  const headBytes = Math.floor(room * headShare);
  return firstBytes(whole, headBytes) + marker + lastBytes(whole, room - headBytes);
}

/** The same with the end only. */
export function keepTail(text: string, maxBytes: number): string {
  const whole = text.toWellFormed();
  if (isWithin(whole, maxBytes)) return whole;
  const marker = `[… ${Buffer.byteLength(whole)} bytes in all, the beginning was cut …]\n`;
  const room = maxBytes - Buffer.byteLength(marker);
  return room < 0 ? lastBytes(whole, maxBytes) : marker + lastBytes(whole, room);
}

/** At most `maxChars` UTF-16 units from the beginning, without half a character at the end. */
export function clip(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splitsPair ? maxChars - 1 : maxChars);
}

function firstBytes(text: string, bytes: number): string {
  const buffer = Buffer.from(clip(text, bytes));
  let end = Math.min(bytes, buffer.length);
  while (end > 0 && end < buffer.length && isContinuation(buffer[end])) end--;
  return buffer.toString('utf8', 0, end);
}

function lastBytes(text: string, bytes: number): string {
  if (bytes === 0) return '';
  const buffer = Buffer.from(text.slice(-bytes).toWellFormed());
  let start = Math.max(0, buffer.length - bytes);
  while (start < buffer.length && isContinuation(buffer[start])) start++;
  return buffer.toString('utf8', start);
}

/** Is this byte a part of a character that began before it, in UTF-8? */
export function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

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
