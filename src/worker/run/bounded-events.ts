import { isRecord, jsonText } from '../../shared/base/json.ts';
import { isWithin, keepEnds } from '../../shared/base/text.ts';
import type { EventBody, EventEnvelope, EventType } from '../../shared/contract/event.ts';

/** The JSON of an event, in bytes. */
export const maxEventBytes = 64 * 1024;
/** The same for events that carry the answer of a run. */
export const maxAnswerBytes = 1024 * 1024;

const withAnswer: ReadonlySet<EventType> = new Set([
  'text.complete',
  'agent.response',
  'agent.end',
  'run.completed',
  'run.failed',
  'node.completed',
]);

/** A body, and which of its fields are not whole. */
type BoundedEvent = EventBody & Pick<EventEnvelope, 'truncated'>;

/** The envelope is not counted. */
const envelopeBytes = 2_048;

interface Bounds {
  /** Of one text. */
  readonly maxBytes: number;
  /** Of one list, or of the fields of one object. */
  readonly maxItems: number;
  readonly maxLevels: number;
}

/** From mild to severe. What is left by the last one fits whatever there was. */
const steps: readonly Bounds[] = [
  { maxBytes: 16_384, maxItems: 1_000, maxLevels: 64 },
  { maxBytes: 4_096, maxItems: 256, maxLevels: 64 },
  { maxBytes: 1_024, maxItems: 64, maxLevels: 16 },
  { maxBytes: 512, maxItems: 8, maxLevels: 3 },
];

/**
 * The events that say what this one says, each within its bound. A longer delta becomes several; of any other event the longest
 * parts are left out, and `truncated` names the fields that they were in. An event within its bound is answered as it is.
 */
export function boundedEvents(event: EventBody): readonly BoundedEvent[] {
  const maxBytes = (withAnswer.has(event.type) ? maxAnswerBytes : maxEventBytes) - envelopeBytes;
  if (roomOf(event) <= maxBytes || fits(event, maxBytes)) return [event];
  if (event.type === 'text.delta' || event.type === 'reasoning.delta')
    return piecesOf(event.delta).map((delta) => ({ ...event, delta }));
  const fields = Object.entries(event);
  // Answers are long: most of one is kept, where cutting it is enough.
  const first = { maxBytes: maxBytes / 2, maxItems: 1_000, maxLevels: 64 };
  for (const bounds of [first, ...steps]) {
    const cut = fields.map(([name, value]) => [name, shrunk(value, bounds, 0)] as const);
    const truncated = cut.filter(([, value], index) => value !== fields[index]?.[1]).map(([name]) => name);
    const bounded = { ...(Object.fromEntries(cut) as unknown as EventBody), truncated };
    if (fits(bounded, maxBytes)) return [bounded];
  }
  // Thousands of long names of fields: nothing of it can be shown.
  const names = fields.map(([name]) => name).filter((name) => name !== 'type');
  const nothing = Object.fromEntries(names.map((name) => [name, null]));
  return [{ ...nothing, type: event.type, truncated: names } as unknown as BoundedEvent];
}

function fits(event: EventBody, maxBytes: number): boolean {
  return isWithin(jsonText(event), maxBytes);
}

/** At least the bytes of the JSON text, without writing it: most events are far below their bound. */
function roomOf(value: unknown): number {
  if (typeof value === 'string') return value.length * 6 + 3;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + roomOf(item) + 1, 2);
  if (!isRecord(value)) return 32;
  return Object.entries(value).reduce((sum, [name, item]) => sum + name.length * 6 + 4 + roomOf(item), 2);
}

/** The value with its long texts and lists cut, or the very same one where there was nothing to cut. */
function shrunk(value: unknown, bounds: Bounds, level: number): unknown {
  if (typeof value === 'string') return isWithin(value, bounds.maxBytes) ? value : keepEnds(value, bounds.maxBytes);
  if (value === null || typeof value !== 'object') return value;
  if (level >= bounds.maxLevels) return '[left out]';
  if (Array.isArray(value)) {
    const items = value.slice(0, bounds.maxItems).map((item) => shrunk(item, bounds, level + 1));
    return items.length === value.length && items.every((item, index) => item === value[index]) ? value : items;
  }
  const before = Object.entries(value);
  const after = before
    .slice(0, bounds.maxItems)
    .map(([name, item]) => [name, shrunk(item, bounds, level + 1)] as const);
  const isSame = after.length === before.length && after.every(([, item], index) => item === before[index]?.[1]);
  return isSame ? value : Object.fromEntries(after);
}

/** Of one delta, also where several are merged. */
export const maxPieceChars = 8_192;

/** The text in parts of whole characters. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    let end = Math.min(text.length, at + maxPieceChars);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}
