import { isRecord, jsonOr } from '../../../shared/base/json.ts';
import { cutText, type Redactor } from '../../../shared/base/redact.ts';
import { lineKinds } from '../../../shared/contract/archive/line-kinds.ts';
import { type ChangedLabels, changedLabelsOf } from '../../../shared/contract/archive/labels.ts';
import { withAnswerEverywhere, withAnswerOnce } from '../../../shared/contract/archive/repeated-answer.ts';
import type { EndedRun } from '../../../shared/state/archive/ended-run.ts';
import { mayHoldSecrets, withBody, withoutSecrets } from './without-secrets.ts';

/** What is written for one run. Compressed it is a few kilobytes, or as much when it is noise. */
const maxChars = 1_500_000;
/** Longest texts, in bytes, as the whole has to become smaller. */
const cuts = [65_536, 16_384, 4_096, 1_024];
/** Events that stay at each end when they alone are too much. */
const eventsAtEnds = 250;

/**
 * The lines of an ended run as they are archived: without the results of secret tools, without credentials, as far as this process knows
 * them or they look like credentials, and with an end. Mostly nothing has to be done, and they are copied as they stand: to take them
 * apart would cost more than everything else.
 */
export function archivedLines({ lines }: EndedRun, redactor: Redactor): { lines: string; isCut: boolean } {
  const short = withAnswerOnce(lines);
  const masked = mayHoldSecrets(short)
    ? lines
        .split('\n')
        .map((line) => withoutSecrets(line, redactor))
        .join('\n')
    : short;
  const clean = redactor.secrets(masked);
  if (clean.length <= maxChars) return { lines: clean, isCut: false };
  return { lines: fitted(withAnswerEverywhere(clean)), isCut: true };
}

/** The labels of a run that are not in its lines as it was given them. */
export function changedLabels({ runId, facts }: EndedRun, lines: string): ChangedLabels | undefined {
  const { request = '' } = facts;
  if (!request.includes('"metadata"')) return undefined;
  const start = `\n${lineKinds.field}request `;
  const from = lines.indexOf(start) + start.length;
  if (lines.startsWith(`${request}\n`, from)) return undefined;
  return changedLabelsOf(runId, metadataIn(request), metadataIn(lines.slice(from, lines.indexOf('\n', from))));
}

function metadataIn(request: string): unknown {
  const found = jsonOr(request);
  return isRecord(found) ? found['metadata'] : undefined;
}

/** The same, small enough. Long texts become shorter first; then the events in the middle go, then the journal. */
function fitted(text: string): string {
  const all = text.split('\n');
  let lines = all;
  for (const maxBytes of cuts) {
    lines = all.map((line) => withShortTexts(line, maxBytes));
    if (charsOf(lines) <= maxChars) return lines.join('\n');
  }
  const events = lines.filter((line) => line.startsWith(lineKinds.event));
  const leaving = new Set(events.slice(eventsAtEnds, -eventsAtEnds));
  lines = lines.filter((line) => !leaving.has(line));
  if (charsOf(lines) > maxChars)
    lines = lines.filter((line) => !line.startsWith(lineKinds.entry) && !line.startsWith(lineKinds.decision));
  return lines.join('\n');
}

function charsOf(lines: readonly string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}

function withShortTexts(line: string, maxBytes: number): string {
  return line.length <= maxBytes ? line : withBody(line, (value) => shortened(value, maxBytes));
}

function shortened(value: unknown, maxBytes: number): unknown {
  if (typeof value === 'string') return cutText(value, maxBytes);
  if (Array.isArray(value)) return value.map((item) => shortened(item, maxBytes));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shortened(item, maxBytes)]));
}
