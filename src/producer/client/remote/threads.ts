import { jsonOr } from '../../../shared/base/json.ts';
import { RunError } from '../../../shared/base/run-error.ts';
import type { ThreadEvent, ThreadEventsPage } from '../../../shared/contract/thread/thread.ts';
import type { ThreadExportLine, ThreadView } from '../../../shared/contract/thread/thread-items.ts';
import type { ThreadPurge } from '../../../shared/state/thread/list.ts';
import type { MessagesPage } from '../thread-messages.ts';
import type { MessagesQuery, ThreadChanges, ThreadEventsQuery, Threads, ThreadsQuery } from '../threads.ts';
import { unreachable } from './answers.ts';
import { at, isPassingTrouble, type Link } from './link.ts';
import { linesOf } from './sse.ts';

const defaultEvents = 100;
const lines = { accept: 'application/x-ndjson' };

/** The threads over HTTP. */
export class RemoteThreads implements Threads {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  async list(query: ThreadsQuery = {}): Promise<{ readonly threads: readonly ThreadView[]; readonly cursor?: string }> {
    return await this.#link.json({ path: '/v1/threads', query });
  }

  async get(threadId: string): Promise<ThreadView> {
    return await this.#link.json({ path: at`/v1/threads/${threadId}` });
  }

  async messages(threadId: string, query: MessagesQuery = {}): Promise<MessagesPage> {
    return await this.#link.json({ path: at`/v1/threads/${threadId}/messages`, query });
  }

  async events(threadId: string, query: ThreadEventsQuery = {}): Promise<ThreadEventsPage> {
    const { limit = defaultEvents } = query;
    const events = await this.#events(threadId, { ...query, limit });
    const last = events.at(-1)?.sequenceNumber;
    if (events.length < limit || last === undefined) return { events, more: false };
    // The answer does not say whether there are others.
    return { events, more: (await this.#events(threadId, { after: last, limit: 1 })).length > 0 };
  }

  async update(threadId: string, changes: ThreadChanges): Promise<ThreadView> {
    const path = at`/v1/threads/${threadId}`;
    return await this.#link.json({ method: 'PATCH', path, body: { json: changes }, isRepeatable: true });
  }

  async delete(threadId: string): Promise<void> {
    await forgetting(this.#link, at`/v1/threads/${threadId}`);
  }

  async purge(query: { readonly cursor?: string } = {}): Promise<ThreadPurge> {
    return await this.#link.json({
      method: 'DELETE',
      path: '/v1/threads',
      query: { confirm: 'all', cursor: query.cursor },
      answerMs: 120_000,
      isRepeatable: true,
    });
  }

  async *export(threadId: string): AsyncGenerator<ThreadExportLine, void, void> {
    const path = at`/v1/threads/${threadId}/export`;
    using answer = await this.#link.open({ path, headers: lines });
    try {
      for await (const line of linesOf(answer)) yield lineOf(line, answer.question.url) as ThreadExportLine;
    } catch (error) {
      throw error instanceof RunError
        ? error
        : unreachable(`${answer.question.url} broke off: this is no whole export`, error);
    }
  }

  async #events(threadId: string, query: ThreadEventsQuery): Promise<readonly ThreadEvent[]> {
    const asked = { path: at`/v1/threads/${threadId}/events`, query, headers: lines };
    return await this.#link.read(asked, async (answer) => {
      const found: ThreadEvent[] = [];
      for await (const line of linesOf(answer)) found.push(lineOf(line, answer.question.url) as ThreadEvent);
      return found;
    });
  }
}

/** Deletes something. When the first answer is lost, it may be gone by the second. */
export async function forgetting(link: Link, path: string): Promise<void> {
  try {
    await link.json({ method: 'DELETE', path });
  } catch (error) {
    if (!isPassingTrouble(error)) throw error;
    await link.json({ method: 'DELETE', path, isRepeatable: true }).catch(unlessGone);
  }
}

function lineOf(line: string, url: string): unknown {
  const value = jsonOr(line);
  if (value === undefined) throw unreachable(`${url} sent a line that is no JSON`);
  return value;
}

function unlessGone(error: unknown): void {
  if (!(error instanceof RunError && error.code === 'not_found')) throw error;
}
