import { isRecord, jsonOr, jsonText, maxLevels, depthOver } from '../../../shared/base/json.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { clip, cleanJson } from '../../../shared/base/text.ts';

export const maxArgsBytes = 256 * 1024;

const maxShownChars = 16_000;
const maxSummaryChars = 200;

export type ParsedArgs =
  | { readonly kind: 'parsed'; readonly value: unknown }
  | { readonly kind: 'refused'; readonly reason: string };

/**
 * The value of the model's argument text. Text that is not JSON counts as `{}`, so that validation can name the fields
 * that are missing. Size and depth are checked before parsing: the parser itself would take a million levels.
 */
export function parseArgs(text: string): ParsedArgs {
  if (Buffer.byteLength(text) > maxArgsBytes)
    return { kind: 'refused', reason: `the arguments are larger than ${maxArgsBytes} bytes` };
  if (depthOver(text, maxLevels))
    return { kind: 'refused', reason: `the arguments are nested deeper than ${maxLevels} levels` };
  return { kind: 'parsed', value: cleanJson(jsonOr(text, {})) };
}

/** Arguments as events show them: scrubbed, secret-named fields masked, bounded; `{}` for what is not an object. */
export function shownArgs(value: unknown, redactor: Redactor): Record<string, unknown> {
  if (!isRecord(value)) return {};
  const clean = redactor.value(value) as Record<string, unknown>;
  const json = jsonText(clean);
  return json.length <= maxShownChars ? clean : { truncated: clip(json, maxShownChars) };
}

/** One line about a call for people: `name(args)`, at most 200 characters. Takes arguments that are safe to show. */
export function callSummary(name: string, shown: Record<string, unknown>): string {
  return clip(`${name}(${jsonText(shown)})`, maxSummaryChars);
}

/** The same text for calls of one tool with equal arguments, however the model wrote them down. */
export function fingerprint(name: string, argsText: string): string {
  const parsed = parseArgs(argsText);
  return `${name}\n${parsed.kind === 'parsed' ? jsonText(sorted(parsed.value)) : argsText}`;
}

/** The name of the tool in a fingerprint. */
export function toolIn(print: string): string {
  return print.slice(0, print.indexOf('\n'));
}

function sorted(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(sorted);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  // Pairs rather than an object: an object would sort number-like names its own way and lose none of them, but a field
  // called __proto__ would be lost.
  return { fields: entries.map(([name, item]) => [name, sorted(item)]) };
}
