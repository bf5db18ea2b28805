import { systemClock } from '../../../shared/base/clock.ts';
import { jsonOr } from '../../../shared/base/json.ts';
import { asRunError, RunError } from '../../../shared/base/run-error.ts';
import type { RunEvent } from '../../../shared/contract/event.ts';
import { isTerminal, isTerminalStatus } from '../../../shared/contract/plain/ends.ts';
import type { RunView } from '../../../shared/contract/run.ts';
import type { FollowOptions } from '../operations.ts';
import { stoppable } from '../stop-signal.ts';
import { errorIn, unreachable } from './answers.ts';
import { at, isPassingTrouble, pauseAfter, type Asked, type Link } from './link.ts';
import { messagesOf, type SilenceOptions } from './sse.ts';

/** How long a stream that nothing comes through is opened again and again. */
const maxOutageMs = 60_000;
/** How long the first answer may be waited for. */
const firstOutageMs = 5_000;
/** A connection that lasted so long was one, even if nothing came through it. */
const steadyMs = 5_000;

/** One message of a stream: its type, its number where it has one, and what it carries. */
export interface StreamMessage {
  readonly type: string | undefined;
  readonly id: string | undefined;
  readonly data: unknown;
}

interface Stream {
  /** The request that goes on after what has come so far. */
  readonly ask: () => Asked;
  /** Called when a stream has ended: is that all there is? */
  readonly isOver: () => Promise<boolean>;
}

/**
 * The messages of a stream that is opened again wherever it breaks, until `isOver` or the reader has enough. Who reads counts: the next
 * request goes on after what was taken. Throws the producer's error, and `queue_unavailable` when nothing came for a minute.
 */
export async function* resuming(
  link: Link,
  { ask, isOver }: Stream,
  stop: AbortSignal,
  silence: SilenceOptions = {},
): AsyncGenerator<StreamMessage, void, undefined> {
  let quietSince = systemClock.monotonic();
  let failures = 0;
  let isFirst = true;
  while (!stop.aborted) {
    const openedAt = systemClock.monotonic();
    let trouble: RunError | undefined;
    try {
      using answer = await link.open({ ...ask(), headers: { accept: 'text/event-stream' }, signal: stop });
      isFirst = false;
      for await (const message of messagesOf(answer, silence)) {
        if (message.event === 'error' && message.id === undefined) throw errorIn(jsonOr(message.data), answer);
        const data = jsonOr(message.data);
        if (data === undefined) throw unreachable(`${answer.question.url} sent an event that is no JSON`);
        quietSince = systemClock.monotonic();
        failures = 0;
        yield { type: message.event, id: message.id, data };
      }
      if (await isOver()) return;
    } catch (error) {
      trouble = troubleOf(error, stop);
      link.onError(trouble);
    }
    const nowMs = systemClock.monotonic();
    if (nowMs - openedAt > steadyMs) quietSince = nowMs;
    if (nowMs - quietSince > (isFirst ? firstOutageMs : maxOutageMs))
      throw trouble ?? unreachable('the stream is ended again and again before anything comes through it');
    if (failures++ > 0 || trouble) await link.pause(pauseAfter(failures - 1), stop);
  }
}

/** The events of a run after a number, in order, each once, to the terminal one. */
export function followRemote(
  link: Link,
  runId: string,
  { after, signal, whole = false }: FollowOptions,
  silence: SilenceOptions = {},
): AsyncIterable<RunEvent> {
  return stoppable([signal, link.closing], (stop) => follow(link, runId, { after, whole }, stop, silence));
}

async function* follow(
  link: Link,
  runId: string,
  { after, whole }: { readonly after: number; readonly whole: boolean },
  stop: AbortSignal,
  silence: SilenceOptions,
): AsyncGenerator<RunEvent, void, undefined> {
  if (!Number.isSafeInteger(after) || after < 0)
    throw new RunError('validation', 'after must be a whole number from 0');
  let cursor = after;
  const ask = () => ({ path: at`/v1/runs/${runId}/events`, query: { after: cursor, ...(whole && { whole }) } });
  // A reader that has the last event already gets a stream without one.
  const isOver = async () => {
    const { status, lastSequence } = await link.json<RunView>({ path: at`/v1/runs/${runId}`, signal: stop });
    return isTerminalStatus(status) && lastSequence <= cursor;
  };
  for (let gapAt = -1; ;) {
    let isWhole = true;
    for await (const { data } of resuming(link, { ask, isOver }, stop, silence)) {
      const event = data as RunEvent;
      if (event.sequenceNumber <= cursor) continue;
      // The log of a run that was redriven begins later; nothing may be missing after that.
      isWhole = cursor === 0 || event.sequenceNumber === cursor + 1 + (event.omitted ?? 0);
      if (!isWhole) break;
      cursor = event.sequenceNumber;
      yield event;
      if (isTerminal(event)) return;
    }
    if (isWhole || stop.aborted) return;
    if (gapAt === cursor) throw new RunError('replay_truncated', `events after ${cursor} of run ${runId} are missing`);
    gapAt = cursor;
    await link.pause(pauseAfter(0), stop);
  }
}

/** All events of the tenant's runs from now on. What comes while a connection is made anew is lost, as the firehose is live only. */
export function followAllRemote(
  link: Link,
  signal: AbortSignal | undefined,
  silence: SilenceOptions = {},
): AsyncIterable<RunEvent> {
  return stoppable([signal, link.closing], async function* (stop) {
    const stream = { ask: () => ({ path: '/v1/events' }), isOver: async () => false };
    for await (const { data } of resuming(link, stream, stop, silence)) yield data as RunEvent;
  });
}

/** What a stream outlives. Throws everything else. */
function troubleOf(error: unknown, stop: AbortSignal): RunError {
  if (stop.aborted) throw error;
  // What breaks in the middle of a body is no error of ours: a connection that was cut.
  if (!(error instanceof RunError)) return unreachable('the stream broke off', error);
  if (isPassingTrouble(error)) return error;
  throw asRunError(error);
}
