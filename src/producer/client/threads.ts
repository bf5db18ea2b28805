import { z } from 'zod';
import { defined } from '../../shared/base/collections.ts';
import { RunError } from '../../shared/base/errors.ts';
import { publicId } from '../../shared/base/ids.ts';
import { maxThreadEvents, type ThreadEventsPage, type ThreadRef } from '../../shared/contract/thread/thread.ts';
import { readThreadEvents, readThread, threadInfo, updateThread } from '../../shared/state/thread/log.ts';
import {
  exportedThread,
  type ThreadExportLine,
  viewOfThread,
  type ThreadView,
} from '../../shared/contract/thread/thread-items.ts';
import { lockOwnerOf, type ThreadKeySpace } from '../../shared/state/thread/key-space.ts';
import { listThreads, purgeThreads, removeThread, type ThreadPurge } from '../../shared/state/thread/list.ts';
import { reach, type TenantClient } from './client-core.ts';
import { readMessages, type MessagesPage } from './thread-messages.ts';
import { safeInput } from './accept/validate.ts';
import { parseAs } from '../../shared/base/problems.ts';

/** Messages that one answer shows at most. */
export const maxMessages = 200;
const exportedAtOnce = 100;

const listQuery = z.strictObject({
  /** Only threads of this agent. */
  agent: publicId.optional(),
  /** From the previous page; absent for the first. */
  cursor: z.string().max(256).optional(),
  /** 1 to 100, default 50. */
  limit: z.int().min(1).max(100).default(50),
});
export type ThreadsQuery = Readonly<z.input<typeof listQuery>>;

const seq = z.int().min(0);
const messagesQuery = z.strictObject({
  /** Only messages with a higher number. */
  after: seq.optional(),
  /** Only messages with a lower number, and none that are live. */
  before: seq.optional(),
  /** Messages, 1 to 200, default 100. One may show as several items. */
  limit: z.int().min(1).max(maxMessages).default(100),
  /** Default `asc`: oldest first. */
  order: z.enum(['asc', 'desc']).default('asc'),
});
/** Which messages of a thread, by their numbers in the log. */
export type MessagesQuery = Readonly<z.input<typeof messagesQuery>>;

const eventsQuery = z.strictObject({
  /** Only events with a higher number. */
  after: seq.optional(),
  /** 1 to 1,000, default 100. */
  limit: z.int().min(1).max(maxThreadEvents).default(100),
});
/** Which events of a thread. */
export type ThreadEventsQuery = Readonly<z.input<typeof eventsQuery>>;

export const threadChanges = z
  .strictObject({
    /** 1 to 200 characters. */
    title: z.string().min(1).max(200).nullable().optional(),
    taskId: publicId.nullable().optional(),
  })
  .refine(({ title, taskId }) => title !== undefined || taskId !== undefined, 'give title or taskId');
/** Fields of a thread that may be changed; null removes one. */
export type ThreadChanges = Readonly<z.input<typeof threadChanges>>;

/** The threads of one tenant. Every method throws `RunError`; a thread of another tenant is `not_found`. */
export interface Threads {
  /**
   * Threads, last changed first. A page may have fewer than `limit`, even none, and still have a `cursor`; no cursor means the
   * end. Throws `validation`.
   */
  list(query?: ThreadsQuery): Promise<{ readonly threads: readonly ThreadView[]; readonly cursor?: string }>;
  /** The thread, its lock owner and how many runs wait. Throws `not_found`, `invalid_id`. */
  get(threadId: string): Promise<ThreadView>;
  /**
   * The messages and tool calls of the thread; handoffs, results and summaries are in its `export`. Items of the running run come last (`desc`: first) and are `live`: they
   * have no number until its turn has ended. Throws `not_found`, `invalid_id`, `validation`.
   */
  messages(threadId: string, query?: MessagesQuery): Promise<MessagesPage>;
  /**
   * What the post-run jobs of the thread made: titles, embeddings, and failures. Oldest first; of each thread the newest
   * 1,000 are kept. Throws `not_found`, `invalid_id`, `validation`.
   */
  events(threadId: string, query?: ThreadEventsQuery): Promise<ThreadEventsPage>;
  /** Changes the title or the task, also while a run has the lock. Throws `not_found`, `invalid_id`, `validation`. */
  update(threadId: string, changes: ThreadChanges): Promise<ThreadView>;
  /**
   * Deletes the thread with its whole log. Throws `concurrent_run` (its message and `details.runs` name the runs)
   * while a run has its lock or waits for it, `not_found`, `invalid_id`.
   */
  delete(threadId: string): Promise<void>;
  /**
   * Deletes up to 500 threads of the tenant and answers how many there were, which were `kept` because they are in use, and
   * a `cursor` when there are more. Threads that change after the first call are kept. Throws `validation`.
   */
  purge(query?: { readonly cursor?: string }): Promise<ThreadPurge>;
  /**
   * The thread and its whole log as it is when the iteration begins, oldest entry first. Throws at its first step `not_found`
   * and `invalid_id`, at any step `queue_unavailable`.
   *
   * @example
   * for await (const line of mill.threads.export('customer-42')) file.write(`${JSON.stringify(line)}\n`);
   */
  export(threadId: string): AsyncGenerator<ThreadExportLine, void, void>;
}

/** The threads over Redis. */
export class RedisThreads implements Threads {
  readonly #client: TenantClient;

  constructor(client: TenantClient) {
    this.#client = client;
  }

  async list(query: ThreadsQuery = {}): Promise<{ readonly threads: readonly ThreadView[]; readonly cursor?: string }> {
    const filter = parse(listQuery, query);
    const page = await this.#reach((space) => listThreads(space, this.#client.tenant, filter));
    return { ...page, threads: page.threads.map(viewOfThread) };
  }

  async get(threadId: string): Promise<ThreadView> {
    const thread = this.#ref(threadId);
    return viewOfThread(await this.#reach((space) => threadInfo(space, thread)));
  }

  async messages(threadId: string, query: MessagesQuery = {}): Promise<MessagesPage> {
    const thread = this.#ref(threadId);
    const range = parse(messagesQuery, query);
    return await this.#reach((space) => readMessages(space, thread, range));
  }

  async events(threadId: string, query: ThreadEventsQuery = {}): Promise<ThreadEventsPage> {
    const thread = this.#ref(threadId);
    const range = parse(eventsQuery, query);
    return await this.#reach((space) => readThreadEvents(space, thread, range));
  }

  async update(threadId: string, changes: ThreadChanges): Promise<ThreadView> {
    const thread = this.#ref(threadId);
    const patch = parse(threadChanges, changes, 'change');
    await this.#reach((space) => updateThread(space, thread, patch));
    return await this.get(threadId);
  }

  async delete(threadId: string): Promise<void> {
    const thread = this.#ref(threadId);
    await this.#reach((space) => removeThread(space, thread));
  }

  async purge(query: { readonly cursor?: string } = {}): Promise<ThreadPurge> {
    return await this.#reach((space) => purgeThreads(space, this.#client.tenant, query.cursor));
  }

  async *export(threadId: string): AsyncGenerator<ThreadExportLine, void, void> {
    const thread = this.#ref(threadId);
    const info = await this.#reach((space) => threadInfo(space, thread));
    yield { ...exportedThread.parse(info), t: 'thread' };
    const lockOwner = await this.#reach((space) => lockOwnerOf(space, thread));
    const last = lockOwner?.rolledBack ? Math.min(lockOwner.began, info.lastSeq) : info.lastSeq;
    let after = 0;
    for (;;) {
      const range = { after, before: last + 1, limit: exportedAtOnce };
      const { entries, more } = await this.#reach((space) => readThread(space, thread, range));
      for (const { seq: number, entry } of entries) yield { ...entry, seq: number };
      if (!more) return;
      after = entries.at(-1)?.seq ?? last;
    }
  }

  #ref(threadId: string): ThreadRef {
    const parsed = publicId.safeParse(threadId);
    if (!parsed.success) throw new RunError('invalid_id', 'a thread id is 1 to 128 characters of A-Z a-z 0-9 . _ : -');
    return { tenant: this.#client.tenant, threadId: parsed.data };
  }

  async #reach<T>(work: (space: ThreadKeySpace) => Promise<T>): Promise<T> {
    return await reach(this.#client, ({ core, redis }) => work(core.threadKeySpace(redis)));
  }
}

function parse<T extends object>(schema: z.ZodType<T>, input: unknown, what = 'query') {
  return defined(parseAs(schema, safeInput(input), `the ${what} is not valid`));
}
