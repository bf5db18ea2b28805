import { pairsOf, settledValue } from '../../base/collections.ts';
import { RunError } from '../../base/errors.ts';
import { isFirstToken } from '../../contract/archive/archived-run.ts';
import { lineKinds } from '../../contract/archive/line-kinds.ts';
import { isDelta } from '../../contract/event.ts';
import { runRecord } from '../../contract/run.ts';
import type { RedisConnection } from '../connect.ts';
import { named, redisError } from '../errors.ts';
import type { KeySpace } from '../keys.ts';
import { repliesFor } from '../pipelines.ts';
import { loadScript, runScriptAll } from '../script.ts';
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
/** What is written of the hash: the record, and what stands in for a request that cannot be read. The rest is for scripts. */
const recordFields = [...Object.keys(runRecord.shape), 'agent', 'thread'];
/** The beginnings of the lines of the record. */
const fieldStarts = recordFields.map((name) => [name, `${lineKinds.field}${name} `] as const);
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

const recordsScript = loadScript(import.meta.url, './read-records.lua');
/** What the items of its answers have between them. */
const between = '\0';

/**
 * What there is of each of these runs; undefined where the record is gone. One that cannot be read is rejected alone. A script that
 * answered all of it as one text would save a process a little more, and cost Redis nearly twice as much.
 */
export async function readEnded(
  space: EndedSpace,
  runIds: readonly string[],
): Promise<readonly PromiseSettledResult<EndedRun | undefined>[]> {
  const { redis, keys, logTails } = space;
  const tails = runIds.map((runId) => logTails?.ended(runId));
  const calls = runIds.map((runId) => ({
    keys: [keys.run(runId), keys.decisions(runId)],
    args: [],
    doing: `read of the ended run ${runId}`,
  }));
  // The records come first: should a run be redriven and end again meanwhile, its record says an end that is not the last one any more,
  // and it is archived again. The other way round an old log would pass for that of the new end.
  const records = await runScriptAll(redis, recordsScript, calls);
  const asked = runIds.map((runId, i) => ({ runId, tail: tails[i], record: records[i] }));
  const rest = await named(
    'read of ended runs',
    repliesFor(redis, asked, (pipeline, { runId, tail, record }) => {
      pipeline
        .lrange(keys.journal(runId), 0, -1)
        .xrangeBuffer(keys.events(runId), '-', endBefore(tail), 'COUNT', eventsAtOnce);
      if (hasDecisions(record)) pipeline.hvals(keys.decisions(runId));
    }),
  );
  return await Promise.allSettled(
    asked.map(async ({ runId, tail, record }, i) => {
      const others = rest[i];
      if (!record || !others) throw new RunError('internal', `Redis did not answer for run ${runId}`);
      if (others.status === 'rejected') throw redisError(others.reason, `read of the ended run ${runId}`);
      const fields = fieldsOf(settledValue(record) as string, runId);
      return await endedFrom(fields, others.value as Rest, { space, runId, tail });
    }),
  );
}

type Fields = ReadonlyMap<string, string>;
type Rest = [journal: string[], page: Page, decisions?: string[]];

/** Does an answer of `read-records.lua` say that a run has decisions? Hardly any has. */
function hasDecisions(record: PromiseSettledResult<unknown> | undefined): boolean {
  return record?.status === 'fulfilled' && !String(record.value).endsWith(`${between}0`);
}

/** The fields in an answer of `read-records.lua`. Throws `run_state_malformed` where a value has what is between them. */
function fieldsOf(text: string, runId: string): Fields {
  const items = text.split(between).slice(0, -1);
  if (Number(items.pop()) !== items.length)
    throw new RunError('run_state_malformed', `the record of run ${runId} has a field with a NUL`);
  const fields = new Map<string, string>();
  for (let i = 0; i < items.length; i += 2) fields.set(items[i] ?? '', items[i + 1] ?? '');
  return fields;
}

function factsOf(fields: Fields): EndedRun['facts'] {
  const facts: Partial<Record<Fact, string>> = {};
  for (const name of factNames) {
    const value = fields.get(name);
    if (value !== undefined) facts[name] = value;
  }
  return facts;
}

interface Left {
  readonly space: EndedSpace;
  readonly runId: string;
  readonly tail: LogTail | undefined;
}

async function endedFrom(
  fields: Fields,
  [journal, first, decisions = []]: Rest,
  { space: { redis, keys }, runId, tail }: Left,
): Promise<EndedRun | undefined> {
  const facts = factsOf(fields);
  if (facts.runId === undefined) return undefined;
  // It has ended again since, elsewhere: all of its log may be another one.
  if (tail && tail.endedAt !== facts.endedAt) {
    const [again] = await readEnded({ redis, keys }, [runId]);
    return again && settledValue(again);
  }
  const end = endBefore(tail);
  const run = new RunLines();
  run.addFields(fields);
  run.addAll(lineKinds.entry, journal);
  run.addAll(lineKinds.decision, decisions);
  run.addPage(first);
  for (let last = first; last.length === eventsAtOnce; run.addPage(last))
    last = await pageAfter(last, { redis, log: keys.events(runId), end });
  run.addEvents(tail?.events ?? []);
  return { runId, facts, journal, lines: run.text(), firstTokens: run.firstTokens.times };
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

  addFields(fields: Fields): void {
    for (const [name, start] of fieldStarts) {
      const value = fields.get(name);
      if (value !== undefined) this.#add(start, value);
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
