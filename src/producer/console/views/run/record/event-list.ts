import type { RunEvent } from '../../../../../shared/contract/event.ts';

/** What a page keeps of a log. The oldest go first. */
export const maxEvents = 10_000;

export interface EventList {
  readonly events: readonly RunEvent[];
  /** Those without what comes in masses: the same list until another one of them comes. */
  readonly notable: readonly RunEvent[];
  /** The last number that came, deltas included: where a stream goes on. */
  readonly lastSequence: number;
  readonly dropped: number;
}

export const noEvents: EventList = { events: [], notable: [], lastSequence: 0, dropped: 0 };

/** What steps and calls are made of, which the page reads from the steps of the run. */
const masses = /^(step|text|reasoning|tool\.call|tool\.execute|subagent)\./;
const deltas: ReadonlySet<string> = new Set(['text.delta', 'reasoning.delta', 'tool.call.delta']);

/** The list with what came since. Deltas are read as text, and not listed; what came before is not listed again. */
export function withEvents(list: EventList, arrived: readonly RunEvent[]): EventList {
  const fresh = arrived.filter(({ sequenceNumber }) => sequenceNumber > list.lastSequence);
  const last = fresh.at(-1);
  if (!last) return list;
  const all = [...list.events, ...fresh.filter(({ type }) => !deltas.has(type))];
  const over = Math.max(0, all.length - maxEvents);
  const notable = fresh.filter(({ type }) => !masses.test(type));
  return {
    events: over === 0 ? all : all.slice(over),
    notable: notable.length === 0 ? list.notable : [...list.notable, ...notable],
    lastSequence: last.sequenceNumber,
    dropped: list.dropped + over,
  };
}

/** The types in a list, each with how often it is there, the most frequent first. */
export function typesIn(events: readonly RunEvent[]): readonly (readonly [type: string, count: number])[] {
  const counts = new Map<string, number>();
  for (const { type } of events) counts.set(type, (counts.get(type) ?? 0) + 1);
  return [...counts].sort(([a, many], [b, more]) => more - many || (a < b ? -1 : 1));
}

/** Those of this type, or all, whose JSON holds the text. */
export function matching(events: readonly RunEvent[], type: string, text: string): readonly RunEvent[] {
  const wanted = text.trim().toLowerCase();
  return events.filter(
    (event) => (type === '' || event.type === type) && (wanted === '' || textOf(event).includes(wanted)),
  );
}

const texts = new WeakMap<RunEvent, string>();

/** Made once: ten thousand of them are looked through again with each letter that is typed. */
function textOf(event: RunEvent): string {
  const text = texts.get(event) ?? JSON.stringify(event).toLowerCase();
  texts.set(event, text);
  return text;
}

/** What an event is about, in a few words. */
export function gistOf(event: RunEvent): string {
  switch (event.type) {
    case 'tool.execute.start':
    case 'tool.call.start':
    case 'tool.approval.requested':
    case 'tool.approval.granted':
    case 'tool.approval.denied':
    case 'tool.outcome_unknown':
      return event.toolName;
    case 'tool.execute.end':
      return `${event.toolName}: ${event.outputSummary}`;
    case 'tool.execute.error':
      return `${event.toolName}: ${event.error.kind}: ${event.error.message}`;
    case 'step.start':
      return `step ${event.stepNumber} · ${event.model}`;
    case 'step.end':
      return `step ${event.stepNumber} · ${event.finishReason}`;
    case 'step.reset':
      return `step ${event.stepNumber} · ${event.reason}`;
    case 'llm.call':
      return `${event.model} · ${event.outcome}${event.error ? ` · ${event.error.kind}` : ''}`;
    case 'agent.model.fellback':
      return `${event.from} → ${event.to} · ${event.reason}`;
    case 'run.recovered':
      return `${event.previousWorker ?? 'a worker'} was lost or gave it up`;
    case 'run.suspended':
      return event.reason;
    case 'run.resumed':
      return event.directiveSummary;
    case 'run.failed':
      return `${event.error.code}: ${event.error.message}`;
    case 'run.completed':
      return event.status;
    case 'policy.decision':
      return [event.action, event.toolName ?? event.subagentName, event.ruleId].filter(Boolean).join(' · ');
    case 'dataflow.flagged':
    case 'dataflow.asked':
    case 'dataflow.blocked':
    case 'dataflow.declassified':
      return `${event.toolName} · ${event.rule}`;
    case 'subagent.event': {
      const { type } = (event.event ?? {}) as { readonly type?: string };
      return type ?? '';
    }
    case 'text.complete':
      return event.text;
    default:
      return '';
  }
}
