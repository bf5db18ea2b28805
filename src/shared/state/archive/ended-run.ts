import { pairsOf } from '../../base/collections.ts';
import { isFirstToken, lineKinds } from '../../contract/archive/archived-run.ts';
import { isDelta } from '../../contract/event.ts';
import { runRecord } from '../../contract/run.ts';
import type { RedisConnection } from '../connect.ts';
import type { KeySpace } from '../keys.ts';
import { repliesFor } from '../pipelines.ts';
import type { LoggedEvent, LogTail, LogTails } from './log-tails.ts';

/** All that an ended run leaves in Redis, as it stands there. */
export interface EndedRun {
  readonly runId: string;
  /** Fields of its hash that the archiver looks at. */
  readonly facts: Readonly<Partial<Record<Fact, string>>>;
  /** The entries of its journal, as JSON. */
  readonly journal: readonly string[];
  /** The lines of an archived run: its record, journal, decisions, and events without deltas. Each ends with a newline. */
  readonly lines: string;
  /** When the first token of each step came, by the number of the step. */
  readonly firstTokens: Readonly<Record<string, string>>;
}

/** Where ended runs are, and what this process need not read of them again. */
export interface EndedSpace extends KeySpace {
  readonly logTails?: LogTails | undefined;
}

/** So many at once keep Redis from nothing else. */
const eventsAtOnce = 500;
/** What is written of the hash: the record, and what stands in for a request that cannot be read. */
const recordFields = [...Object.keys(runRecord.shape), 'agent', 'thread'];
/** To name the fields costs less than to decode their names, and all that only scripts need. */
const readFields = [...recordFields, 'unarchived', 'logStart'];
/** The beginnings of the lines of the record. */
const fieldStarts = recordFields.map((name) => `${lineKinds.field}${name} `);
/** What the archiver looks at. */
const factNames = [
  'v',
  'runId',
  'tenant',
  'createdAt',
  'endedAt',
  'definition',
  'request',
  'agent',
  'thread',
  'unarchived',
  'logStart',
] as const;
type Fact = (typeof factNames)[number];
/** Where each is among `readFields`. */
const factPlaces = factNames.map((name) => [name, readFields.indexOf(name)] as const);

/**
 * What there is of these runs; undefined where the record is gone. A script that made one text of a run would cost Redis four times as
 * much, and save the process no more than that.
 */
export async function readEnded(
  { redis, keys, logTails }: EndedSpace,
  runIds: readonly string[],
): Promise<readonly (EndedRun | undefined)[]> {
  const tails = new Map(runIds.map((runId) => [runId, logTails?.ended(runId)] as const));
  const replies = await repliesFor(redis, runIds, (pipeline, runId) =>
    pipeline
      .hmget(keys.run(runId), ...readFields)
      .lrange(keys.journal(runId), 0, -1)
      .hvals(keys.decisions(runId))
      .xrangeBuffer(keys.events(runId), '-', endBefore(tails.get(runId)), 'COUNT', eventsAtOnce),
  );
  return await Promise.all(
    runIds.map(async (runId, i) => {
      const [values, journal, decisions, page] = replies[i] as [(string | null)[], string[], string[], Page];
      const facts = factsOf(values);
      if (facts.runId === undefined) return undefined;
      const tail = tails.get(runId);
      // It has ended again since, elsewhere: all of its log may be another one.
      if (tail && tail.endedAt !== facts.endedAt) return (await readEnded({ redis, keys }, [runId]))[0];
      const end = endBefore(tail);
      const run = new RunLines();
      run.addFields(values);
      run.addAll(lineKinds.entry, journal);
      run.addAll(lineKinds.decision, decisions);
      run.addPage(page);
      for (let last = page; last.length === eventsAtOnce; run.addPage(last))
        last = await pageAfter(last, { redis, log: keys.events(runId), end });
      run.addEvents(tail?.events ?? []);
      return { runId, facts, journal, lines: run.text(), firstTokens: run.firstTokens.times };
    }),
  );
}

function factsOf(values: readonly (string | null)[]): EndedRun['facts'] {
  const found: Partial<Record<Fact, string>> = {};
  for (const [name, at] of factPlaces) {
    const value = values[at];
    if (typeof value === 'string') found[name] = value;
  }
  return found;
}

/** Entries of a stream. Most of what they are made of is not looked at, and stays undecoded. */
type Page = [id: Buffer, fields: Buffer[]][];

/** Where what is to be read of a log ends. */
function endBefore(tail: LogTail | undefined): string {
  return tail ? `(${tail.from}-0` : '+';
}

interface LogRange {
  readonly redis: RedisConnection;
  readonly log: string;
  readonly end: string;
}

async function pageAfter(page: Page, { redis, log, end }: LogRange): Promise<Page> {
  const last = page.at(-1)?.[0].toString();
  return await redis.xrangeBuffer(log, `(${last}`, end, 'COUNT', eventsAtOnce);
}

/** The lines of a run as they are put together. */
class RunLines {
  readonly firstTokens = new FirstTokens();
  readonly #lines: string[] = [];

  /** The values of `readFields`. */
  addFields(values: readonly (string | null)[]): void {
    for (const [i, start] of fieldStarts.entries()) {
      const value = values[i];
      if (typeof value === 'string') this.#add(start, value);
    }
  }

  addAll(kind: string, texts: readonly string[]): void {
    for (const text of texts) this.#add(kind, text);
  }

  addPage(page: Page): void {
    const texts = page.map(([, [, bytes]]) => bytes?.toString() ?? '');
    this.addEvents(texts.map((text) => ({ type: typeOf(text), text })));
  }

  addEvents(events: readonly LoggedEvent[]): void {
    for (const { type, text } of events) {
      this.firstTokens.add(type, text);
      // Deltas repeat what the journal says.
      if (!isDelta(type)) this.#add(lineKinds.event, text);
    }
  }

  /** Joined once: a text that grew piece by piece would have to be put together by the first that looks into it. */
  text(): string {
    return [...this.#lines, ''].join('\n');
  }

  /** No JSON of ours has a newline. A text that is damaged must not become several lines. */
  #add(start: string, text: string): void {
    this.#lines.push(start + (text.includes('\n') ? text.replaceAll('\n', ' ') : text));
  }
}

// Inside a JSON string a quote is escaped, so only real fields can look like these. The fields of all events come first.
const typeMark = '"type":"';
const stepForm = /"stepNumber":(\d+)/;
const timeForm = /"timestamp":"([^"]+)"/;

function typeOf(event: string): string {
  const at = event.indexOf(typeMark) + typeMark.length;
  return event.slice(at, event.indexOf('"', at));
}

class FirstTokens {
  readonly times: Record<string, string> = {};
  #step: string | undefined;

  add(type: string, event: string): void {
    if (type === 'step.start') this.#step = stepForm.exec(event)?.[1];
    // What came before it is void.
    else if (type === 'step.reset') delete this.times[stepForm.exec(event)?.[1] ?? ''];
    else if (this.#step !== undefined && !(this.#step in this.times) && isFirstToken(type))
      this.times[this.#step] = timeForm.exec(event)?.[1] ?? '';
  }
}

const childFields = ['parentRunId', 'agent', 'status', 'startedAt', 'endedAt', 'costMicrocents'] as const;

/** What is known of these children of a run, by their id; those that are gone, or work for another one, are not in it. */
export async function readChildren(
  { redis, keys }: KeySpace,
  runId: string,
  childIds: readonly string[],
): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>> {
  const found = await Promise.all(
    childIds.map(async (id) => [id, await redis.hmget(keys.run(id), ...childFields)] as const),
  );
  return new Map(
    found.flatMap(([id, values]) => {
      const flat = values.flatMap((value, i) => (value ? [childFields[i] ?? '', value] : []));
      const fields = Object.fromEntries(pairsOf(flat));
      return fields['parentRunId'] === runId ? [[id, fields] as const] : [];
    }),
  );
}
