import type { Redactor } from '../../shared/redact.ts';
import { boundText, clip } from './bound.ts';
import type { CallResult } from './call.ts';
import { jsonOf } from './json.ts';
import { errorResult } from './tool-error.ts';
import type { Tool } from './tool.ts';

const noOutput = 'The tool ran with no output.';
const maxSummaryChars = 500;
const maxShownChars = 4_000;

/** A tool's return value as the model will see it: text as it is, everything else as JSON, within the tool's bound. */
export function resultOf(tool: Pick<Tool, 'name' | 'maxResultTokens'>, value: unknown): CallResult {
  try {
    const text = typeof value === 'string' ? value : (jsonOf(value) ?? '');
    return { content: text.trim() === '' ? noOutput : boundText(text, tool.maxResultTokens) };
  } catch {
    return errorResult({ kind: 'invalid_output', message: 'its result cannot be written as JSON' }, tool.name);
  }
}

/** The beginning of a result for events, scrubbed. Scrubs more than it shows, so that no cut leaves half a credential. */
export function outputSummary(content: string, redactor: Redactor): string {
  return clip(redactor.text(clip(content, 4 * maxSummaryChars)), maxSummaryChars);
}

/** What a tool reports on its way (`progress`, `partial`), made safe and small enough for an event. Never throws. */
export function shownData(data: unknown, redactor: Redactor): unknown {
  try {
    const json = jsonOf(data);
    if (json === undefined) return null;
    if (json.length > maxShownChars) return redactor.text(clip(json, maxShownChars));
    return redactor.value(JSON.parse(json));
  } catch {
    return '[cannot be shown]';
  }
}
