import { pairsOf } from '../../base/collections.ts';
import { isFirstToken, lineKinds } from '../../contract/archive/archived-run.ts';
import { isDelta } from '../../contract/event.ts';
import type { KeySpace } from '../keys.ts';
import { repliesFor } from '../pipelines.ts';

/** All that an ended run leaves in Redis, as it stands there. */
export interface EndedRun {
  readonly runId: string;
  /** Fields of the record and of the machinery. */
  readonly hash: Readonly<Record<string, string>>;
  /** The lines of an archived run: its record, journal, decisions, and events without deltas. Each ends with a newline. */
  readonly lines: string;
  /** When the first token of each step came, by the number of the step. */
  readonly firstTokens: Readonly<Record<string, string>>;
}

/** So many at once keep Redis from nothing else. */
const eventsAtOnce = 500;

/**
 * What there is of these runs; undefined where the record is gone. A script that made one text of a run would cost Redis ten times as
 * much, and the process nothing less.
 */
export async function readEnded(
  space: KeySpace,
  runIds: readonly string[],
): Promise<readonly (EndedRun | undefined)[]> {
  const { redis, keys } = space;
  const replies = await repliesFor(redis, runIds, (pipeline, runId) =>
    pipeline
      .hgetall(keys.run(runId))
      .lrange(keys.journal(runId), 0, -1)
      .hvals(keys.decisions(runId))
      .xrange(keys.events(runId), '-', '+', 'COUNT', eventsAtOnce),
  );
  return await Promise.all(
    runIds.map(async (runId, i) => {
      const [hash, journal, decisions, first] = replies[i] as [Record<string, string>, string[], string[], Page];
      return hash['runId'] === undefined
        ? undefined
        : endedRun(runId, { hash, journal, decisions, pages: pagesOf(runId, first, space) });
    }),
  );
}

/** Entries of a stream. */
type Page = [id: string, fields: string[]][];

async function* pagesOf(runId: string, first: Page, { redis, keys }: KeySpace): AsyncGenerator<Page> {
  let page = first;
  yield page;
  while (page.length === eventsAtOnce) {
    page = await redis.xrange(keys.events(runId), `(${page.at(-1)?.[0]}`, '+', 'COUNT', eventsAtOnce);
    yield page;
  }
}

interface Read {
  readonly hash: Readonly<Record<string, string>>;
  readonly journal: readonly string[];
  readonly decisions: readonly string[];
  readonly pages: AsyncIterable<Page>;
}

async function endedRun(runId: string, { hash, journal, decisions, pages }: Read): Promise<EndedRun> {
  const { field, entry, decision, event } = lineKinds;
  let lines = '';
  const add = (kind: string, text: string) => {
    // No JSON of ours has a newline. A text that is damaged must not become several lines.
    lines += `${kind}${text.includes('\n') ? text.replaceAll('\n', ' ') : text}\n`;
  };
  for (const [name, value] of Object.entries(hash)) if (!machinery.has(name)) add(field, `${name} ${value}`);
  for (const text of journal) add(entry, text);
  for (const text of decisions) add(decision, text);
  const firstTokens = new FirstTokens();
  for await (const page of pages) {
    for (const [, [, text = '']] of page) {
      const type = typeOf(text);
      firstTokens.add(type, text);
      // Deltas repeat what the journal says.
      if (!isDelta(type)) add(event, text);
    }
  }
  return { runId, hash, lines, firstTokens: firstTokens.times };
}

/** Fields that only scripts need while the run works. */
const machinery: ReadonlySet<string> = new Set(
  'owner op nonce bodyHash unclean held claimSegment claimTry listedRequest listedParent'.split(' '),
);

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
