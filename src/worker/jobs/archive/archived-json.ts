import { isRecord, jsonOr, jsonText } from '../../../shared/base/json.ts';
import { cutText, type Redactor } from '../../../shared/base/redact.ts';
import { archivedRunVersion } from '../../../shared/contract/archive/archived-run.ts';
import type { ChildView } from '../../../shared/contract/archive/run-steps.ts';
import type { RunRecord } from '../../../shared/contract/run.ts';
import type { EndedRun } from '../../../shared/state/archive/ended-run.ts';
import type { Earlier } from './earlier-events.ts';
import { mayHoldSecrets, withoutSecrets } from './without-secrets.ts';

/** What is written for one run: all of its JSON together. Compressed it is a few kilobytes, or as much when it is noise. */
const maxChars = 1_500_000;
/** Longest texts, in bytes, as the whole has to become smaller. */
const cuts = [65_536, 16_384, 4_096, 1_024];
/** Events that stay at each end when they alone are too much. */
const eventsAtEnds = 250;

/** An ended run with what is read beside it. */
export interface WholeRun extends EndedRun {
  readonly record: RunRecord;
  readonly children: readonly ChildView[];
  /** It is in the archive already, masked. */
  readonly earlier?: Earlier | undefined;
}

/**
 * An ended run as JSON of an `archivedRun`: without text deltas, without the results of secret tools, and without credentials, as far as
 * this process knows them or they look like credentials. Most of it is copied as it stands: to read and write every entry again would
 * cost more than everything else.
 */
export function archivedJson(run: WholeRun, redactor: Redactor): string {
  const { events, firstTokens } = withoutDeltas(run.events);
  const record = jsonText(run.record);
  const { journal, decisions } = run;
  const open = [record, ...journal, ...decisions];
  const isClean = ![...open, ...events].some(mayHoldSecrets);
  const masked = (json: string) => (isClean ? json : withoutSecrets(json, redactor));
  // Known secrets are in no event: what emits it sees to that.
  const [cleanRecord = '', ...clean] = withoutKnown(open.map(masked), redactor);
  const parts: Parts = {
    record: cleanRecord,
    journal: clean.slice(0, journal.length),
    decisions: clean.slice(journal.length),
    events: events.map(masked),
    firstTokens,
  };
  return jsonOf(run, fitted(parts));
}

/** To look for known secrets in all texts at once costs a fraction of the time, and mostly there are none. */
function withoutKnown(texts: readonly string[], redactor: Redactor): readonly string[] {
  const whole = texts.join('\n');
  return redactor.secrets(whole) === whole ? texts : texts.map((text) => redactor.secrets(text));
}

interface Parts {
  readonly record: string;
  readonly journal: readonly string[];
  readonly events: readonly string[];
  readonly decisions: readonly string[];
  readonly firstTokens: Readonly<Record<string, string>>;
  readonly isCut?: true;
}

function jsonOf({ record: { runId, tenant, definition }, children, earlier }: WholeRun, parts: Parts): string {
  const truncated = (parts.isCut ?? earlier?.isCut) === true ? true : undefined;
  const about = { v: archivedRunVersion, runId, tenant, definition, children, truncated };
  const { record, journal, events, decisions } = parts;
  const firstTokens = { ...earlier?.firstTokens, ...parts.firstTokens };
  const before = earlier ? `"earlier":[${earlier.events.join(',')}],` : '';
  const lists = `"journal":[${journal.join(',')}],"events":[${events.join(',')}],"decisions":[${decisions.join(',')}]`;
  return `${jsonText(about).slice(0, -1)},"firstTokens":${jsonText(firstTokens)},"record":${record},${before}${lists}}`;
}

/** Deltas repeat what the journal says. When the first one of each step came is all that is kept of them. */
function withoutDeltas(log: readonly string[]): { events: string[]; firstTokens: Record<string, string> } {
  const events: string[] = [];
  const firstTokens: Record<string, string> = {};
  let step: string | undefined;
  for (const text of log) {
    const type = typeIn(text);
    const isDelta = type.endsWith('.delta');
    if (type === 'step.start') step = numberIn(text);
    // The deltas before it are void.
    if (type === 'step.reset') delete firstTokens[numberIn(text) ?? ''];
    if (step !== undefined && (isDelta || type === 'agent.thinking' || type === 'tool.call.start'))
      firstTokens[step] ??= timeIn(text);
    if (!isDelta) events.push(text);
  }
  return { events, firstTokens };
}

// Inside a JSON string a quote is escaped, so only real fields can look like these. The fields of all events come first.
const typeIn = (event: string) => /"type":"([a-z_.]+)"/.exec(event)?.[1] ?? '';
const timeIn = (event: string) => /"timestamp":"([^"]+)"/.exec(event)?.[1] ?? '';
const numberIn = (event: string) => /"stepNumber":(\d+)/.exec(event)?.[1];

/** The same, small enough. Long texts become shorter first; then the events in the middle go, then the journal. */
function fitted(parts: Parts): Parts {
  if (charsOf(parts) <= maxChars) return parts;
  let fit = parts;
  for (const maxBytes of cuts) {
    const shorter = (json: string) =>
      json.length <= maxBytes ? json : jsonText(withShortTexts(jsonOr(json), maxBytes));
    fit = {
      ...parts,
      record: shorter(parts.record),
      journal: parts.journal.map(shorter),
      events: parts.events.map(shorter),
      decisions: parts.decisions.map(shorter),
      isCut: true,
    };
    if (charsOf(fit) <= maxChars) return fit;
  }
  const { events } = fit;
  fit = { ...fit, events: [...events.slice(0, eventsAtEnds), ...events.slice(-eventsAtEnds)] };
  if (charsOf(fit) <= maxChars) return fit;
  return { ...fit, journal: [], decisions: [] };
}

function charsOf({ record, journal, events, decisions }: Parts): number {
  const all = (texts: readonly string[]) => texts.reduce((sum, text) => sum + text.length, 0);
  return record.length + all(journal) + all(events) + all(decisions);
}

function withShortTexts(value: unknown, maxBytes: number): unknown {
  if (typeof value === 'string') return cutText(value, maxBytes);
  if (Array.isArray(value)) return value.map((item) => withShortTexts(item, maxBytes));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withShortTexts(item, maxBytes)]));
}
