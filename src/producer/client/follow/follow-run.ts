import { RunError, type ErrorCode } from '../../../shared/base/errors.ts';
import { runId as runIdSchema } from '../../../shared/base/ids.ts';
import { isTerminal, type RunEvent } from '../../../shared/contract/event.ts';
import { type Subscription, EventBuffer } from './event-hub.ts';
import type { LogPage } from './event-log.ts';
import type { ClientCore, TenantClient } from '../client-core.ts';
import type { FollowOptions } from '../operations.ts';
import { missingRun } from '../record/missing-run.ts';
import { stoppable, untilStopped } from '../stop-signal.ts';
import { checkRunId, runNotFound } from '../accept/validate.ts';

/** Live events that a slow subscriber may fall behind before it goes back to reading the log. */
const bufferCapacity = 1_000;

/** The events of a run after a number, in order, each once. Ends after the terminal one. */
export function followRun(
  id: string,
  { after, signal, whole = false }: FollowOptions,
  client: TenantClient,
): AsyncIterable<RunEvent> {
  return stoppable([signal, client.core.closing], (stop) =>
    whole ? follow(id, after, client, stop) : followWherever(id, after, client, stop),
  );
}

/** From the log; of a run that has ended from the archive, once its log is gone. */
async function* followWherever(
  id: string,
  after: number,
  client: TenantClient,
  stop: AbortSignal,
): AsyncGenerator<RunEvent, void, undefined> {
  let begun = false;
  try {
    for await (const event of follow(id, after, client, stop)) {
      begun = true;
      yield event;
    }
  } catch (error) {
    const isGone = error instanceof RunError && goneCodes.has(error.code);
    if (begun || !isGone) throw error;
    yield* archivedEvents(id, after, client, error);
  }
}

const goneCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['run_not_found', 'execution_not_found']);

/** Without text deltas: each event says how many are left out before it. Throws as the log did where the archive has no such run. */
async function* archivedEvents(
  runId: string,
  after: number,
  client: TenantClient,
  error: RunError,
): AsyncGenerator<RunEvent, void, undefined> {
  const archived = runIdSchema.safeParse(runId).success && (await client.core.archive.read(client.tenant, runId));
  if (!archived) throw error.code === 'run_not_found' ? await missingRun(runId, client) : error;
  let cursor = after;
  for (const event of archived.events as RunEvent[]) {
    if (event.sequenceNumber <= after) continue;
    const omitted = event.sequenceNumber - cursor - 1;
    cursor = event.sequenceNumber;
    yield omitted > 0 ? { ...event, omitted } : event;
  }
}

/**
 * The log first, then the channel; on any gap the log again. Nothing is subscribed for a run that the caller may not
 * see, nor for one whose log already has its end.
 */
async function* follow(
  id: string,
  after: number,
  { core, tenant }: TenantClient,
  stop: AbortSignal,
): AsyncGenerator<RunEvent, void, undefined> {
  const runId = checkRunId(id);
  if (!Number.isSafeInteger(after) || after < 0)
    throw new RunError('validation', 'after must be a whole number from 0');
  const buffer = new EventBuffer(bufferCapacity);
  using resources = new DisposableStack();
  let subscription: Subscription | undefined;
  let page = await core.log.page(runId, after);
  const from = after === 0 ? (page.run?.logStart ?? 0) : after;

  for (let cursor = from; ; page = await nextPage(core, runId, cursor, stop)) {
    checkPage(runId, tenant, page, cursor);
    for (const event of page.events) {
      if (stop.aborted) return;
      cursor = event.sequenceNumber;
      yield event;
      if (isTerminal(event)) return;
    }
    if (page.more) continue;
    if (page.run?.ended && cursor >= page.run.lastSequence) return;
    if (!subscription) {
      subscription = resources.use(core.hub.subscribeRun(core.keys.live(runId), buffer));
      await untilStopped(subscription.ready, stop);
      continue;
    }
    const live = yield* followLive(buffer, cursor, stop);
    if (live.ended) return;
    cursor = live.cursor;
  }
}

/** Live events for as long as they connect. Returns the last number delivered, and whether that was the end. */
async function* followLive(
  buffer: EventBuffer,
  start: number,
  stop: AbortSignal,
): AsyncGenerator<RunEvent, { readonly cursor: number; readonly ended: boolean }, undefined> {
  let cursor = start;
  for (;;) {
    await buffer.filled(stop);
    const { events, missed } = buffer.take();
    for (const event of events) {
      if (event.sequenceNumber <= cursor) continue;
      if (event.sequenceNumber > cursor + 1) return { cursor, ended: false };
      if (stop.aborted) return { cursor, ended: true };
      cursor = event.sequenceNumber;
      yield event;
      if (isTerminal(event)) return { cursor, ended: true };
    }
    if (stop.aborted) return { cursor, ended: true };
    if (missed) return { cursor, ended: false };
  }
}

async function nextPage(core: ClientCore, runId: string, cursor: number, stop: AbortSignal): Promise<LogPage> {
  stop.throwIfAborted();
  return await core.patiently(() => core.log.page(runId, cursor), stop);
}

function checkPage(runId: string, tenant: string, { run, events }: LogPage, cursor: number): void {
  if (run?.tenant !== tenant) throw runNotFound(runId);
  const first = events[0]?.sequenceNumber;
  if (first !== undefined && first > cursor + 1) {
    throw new RunError('replay_truncated', `the log of run ${runId} begins at event ${first}`, {
      details: { firstSequence: first },
    });
  }
  if (first === undefined && run.ended && cursor < run.lastSequence) {
    throw new RunError('execution_not_found', `the events of run ${runId} are past their retention`);
  }
}
