import { parseEvent, type RunEvent } from '../../../shared/contract/event.ts';
import type { RedisConnection } from '../../../shared/state/connect.ts';
import type { Keys } from '../../../shared/state/keys.ts';
import { isTerminalStatus, type RunStatus } from '../../../shared/contract/run.ts';

const pageSize = 500;

/** The events of a run after some number, and the record as it was just before. */
export interface LogPage {
  readonly events: readonly RunEvent[];
  /** There may be more than fit into a page. */
  readonly more: boolean;
  /** Undefined: there is no such run. */
  readonly run: ReturnType<typeof loggedRun>;
}

type Reach = <T>(work: (redis: RedisConnection) => Promise<T>) => Promise<T>;

/**
 * Reads pages of logs. Readers that ask for the same page in the same moment share one read: a hundred subscribers of a
 * run that all wake at once cost Redis as much as one.
 */
export class EventLog {
  readonly #keys: Keys;
  readonly #reach: Reach;
  readonly #asked = new Map<string, Promise<LogPage>>();

  constructor(keys: Keys, reach: Reach) {
    this.#keys = keys;
    this.#reach = reach;
  }

  /** The events after number `after`, oldest first. Throws `queue_unavailable`. */
  async page(runId: string, after: number): Promise<LogPage> {
    const question = `${runId} ${after}`;
    return await (this.#asked.get(question) ?? this.#ask(question, runId, after));
  }

  /** Waits one tick for others, then reads. Later readers start a read of their own: what they missed may be newer than this read. */
  #ask(question: string, runId: string, after: number): Promise<LogPage> {
    const { promise: gathered, resolve } = Promise.withResolvers<void>();
    setImmediate(() => {
      this.#asked.delete(question);
      resolve();
    });
    const page = gathered.then(() => this.#reach((redis) => readPage(this.#keys, redis, runId, after)));
    this.#asked.set(question, page);
    return page;
  }
}

/** Reads the record first: when it has ended, the log that is read after it is complete. */
async function readPage(keys: Keys, redis: RedisConnection, runId: string, after: number): Promise<LogPage> {
  const [record, entries] = await Promise.all([
    redis.hmget(keys.run(runId), 'tenant', 'status', 'lastSequence', 'logStart'),
    redis.xrange(keys.events(runId), `(${after}-0`, '+', 'COUNT', pageSize),
  ]);
  const events = entries.map(([, [, json]]) => parseEvent(json as string));
  return { events, more: entries.length === pageSize, run: loggedRun(record) };
}

/** `logStart`: the log begins after this number: 0, or higher for a redriven run. */
function loggedRun([tenant, status, lastSequence, logStart]: readonly (string | null)[]) {
  if (!tenant || !status) return undefined;
  const ended = isTerminalStatus(status as RunStatus);
  return { tenant, ended, lastSequence: Number(lastSequence), logStart: Number(logStart ?? 0) };
}
