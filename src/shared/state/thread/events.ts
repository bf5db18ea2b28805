import { jsonText } from '../../base/json.ts';
import { loadScript, runScript } from '../script.ts';
import {
  maxThreadEvents,
  threadEventVersion,
  type ThreadEvent,
  type ThreadEventBody,
  type ThreadEventOrigin,
  type ThreadEventsPage,
  type ThreadEventsRange,
} from '../../contract/thread/thread-event.ts';
import { readManifest, type ThreadKeySpace } from './key-space.ts';
import type { ThreadRef } from '../../contract/thread/thread.ts';

const appendScript = loadScript(import.meta.url, './append-event.lua');

/** Adds an event to a thread; to one that is gone, nothing. `op` is unique per event: a repeat right after it changes nothing. */
export async function appendThreadEvent(
  { redis, keys, clock }: ThreadKeySpace,
  { tenant, threadId }: ThreadRef,
  { agentId, runId }: ThreadEventOrigin,
  op: string,
  body: ThreadEventBody,
): Promise<void> {
  const timestamp = new Date(clock.now()).toISOString();
  const event = { v: threadEventVersion, timestamp, threadId, agentId, runId, ...body };
  const own = (['manifest', 'events'] as const).map((part) => keys.thread(tenant, threadId, part));
  await runScript(redis, appendScript, own, [op, maxThreadEvents, jsonText(event)], {
    doing: `event of thread ${threadId}`,
  });
}

/** Throws `not_found`. */
export async function readThreadEvents(
  space: ThreadKeySpace,
  thread: ThreadRef,
  { after = 0, limit }: ThreadEventsRange,
): Promise<ThreadEventsPage> {
  const { redis, keys } = space;
  const log = keys.thread(thread.tenant, thread.threadId, 'events');
  await readManifest(space, thread);
  const found = await redis.xrange(log, `(${after}-0`, '+', 'COUNT', limit + 1);
  const events = found.map(([, [, json = '']]) => JSON.parse(json) as ThreadEvent);
  return { events: events.slice(0, limit), more: events.length > limit };
}
