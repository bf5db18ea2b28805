import { isRecord, jsonOr, jsonText } from '../../../shared/base/json.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { lineKinds } from '../../../shared/contract/archive/line-kinds.ts';

/** In entries of the journal: in JSON a quote within a string is escaped. */
const secretResult = '"sensitivity":"secret"';
/**
 * What may be a field with a credential, also within arguments, whose JSON is a text within JSON; or looks like a credential itself.
 * Most lines have neither, and stay as they are.
 */
const suspicious =
  /(?:key|token|secret|passw(?:or)?d|passphrase|authorization|bearer|cookie|credential)s?\\*"\s*:|:\/\/[^/\s:@]*:[^/\s@]+@|[?&](?:api[-_]?key|key|token|access_token|secret|password|sig|signature)=|\b(?:Bearer|Basic)\s|\bsk-|\bAIza/i;
/**
 * Without any of these it is none of that: looking for them is far cheaper. Grouped by their first letters: one by one it takes twice as
 * long. A short one makes the search for all of them slower, so a single character is looked for by itself. In small letters: a search
 * that ignores case takes longer than to make them.
 */
const hint =
  /key|token(?:[\\"=]|s\\)|s(?:ecret|ig=|k-)|pass(?:w|phrase)|a(?:uthoriz|ture=|iza)|b(?:earer|asic)|c(?:ookie|redent)/;

/** May `withoutSecrets` change any line of this text? */
export function mayHoldSecrets(text: string): boolean {
  return text.includes('@') || hint.test(text.toLowerCase());
}

/** A line of an archived run without what must not be kept outside of Redis. */
export function withoutSecrets(line: string, redactor: Redactor): string {
  const isSecret = line.includes(secretResult);
  if (!isSecret && !(mayHoldSecrets(line) && suspicious.test(line))) return line;
  return withBody(line, (value) => {
    if (!isRecord(value)) return redactor.value(value);
    return redactor.value(withOwnArgs(isSecret ? withoutResult(value) : value, redactor));
  });
}

/** The line with another value. That of a field is JSON or a plain text. */
export function withBody(line: string, change: (value: unknown) => unknown): string {
  const from = line.startsWith(lineKinds.field) ? line.indexOf(' ') + 1 : 1;
  const body = line.slice(from);
  const value = jsonOr(body, body);
  const changed = change(value);
  if (changed === value) return line;
  return line.slice(0, from) + (typeof changed === 'string' ? changed : jsonText(changed));
}

function withoutResult(entry: Record<string, unknown>): Record<string, unknown> {
  if (entry['sensitivity'] !== 'secret') return entry;
  if (entry['t'] === 'tool_result') return { ...entry, content: '', flow: undefined };
  if (entry['t'] === 'inner_tool_result') return { ...entry, outcome: 'null', flow: undefined };
  return entry['t'] === 'compacted' ? { ...entry, summary: '' } : entry;
}

/** The arguments of calls are JSON in a text: their fields have names, too. */
function withOwnArgs(entry: Record<string, unknown>, redactor: Redactor): Record<string, unknown> {
  const { message } = entry;
  if (!isRecord(message) || !Array.isArray(message['parts'])) return entry;
  const parts = message['parts'].map((part: unknown) => {
    if (!isRecord(part) || typeof part['args'] !== 'string') return part;
    const args = jsonOr(part['args']);
    return isRecord(args) ? { ...part, args: jsonText(redactor.value(args)) } : part;
  });
  return { ...entry, message: { ...message, parts } };
}
