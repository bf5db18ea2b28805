import { RunError } from '../../../shared/base/errors.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import { EventFeed } from '../../orchestration/task/event-feed.ts';

/** A run that has begun. */
export interface ManifestRun<Output> {
  /** What an agent's stream or a task's stream hands out. For one reader. */
  readonly events: AsyncIterable<EventBody>;
  readonly output: Promise<Output>;
}

/** How many events wait for a reader. */
const capacity = 1_000;

/**
 * A run whose output settles after its events are drained, by their reader or here. While a reader is there, the source is read
 * no further ahead than there is room. An abort of the signal ends the waiting for a reader. Throws `validation` for what is no
 * run.
 */
export function settled<Output>(run: ManifestRun<Output>, signal: AbortSignal): ManifestRun<Output> {
  checkRun(run);
  const feed = new EventFeed<EventBody>(capacity);
  const given = Promise.resolve(run.output);
  // It may fail before its events are at their end; the failure is reported afterwards.
  given.catch(() => {});
  const gone = aborted(signal);
  const forwarded = forward(run.events, feed, gone.promise);
  const output = (async () => {
    try {
      await forwarded;
      await Promise.race([feed.drained(), gone.promise]);
      return await given;
    } finally {
      gone.forget();
    }
  })();
  // A reader of the events alone must not cause an unhandled rejection.
  output.catch(() => {});
  return { events: feed, output };
}

/** Never rejects: what the source throws is thrown to the reader, and the output has the end of the run. */
async function forward(
  source: AsyncIterable<EventBody>,
  feed: EventFeed<EventBody>,
  gone: Promise<void>,
): Promise<void> {
  try {
    for await (const event of source) {
      await Promise.race([feed.room(), gone]);
      feed.push(event);
    }
    feed.end();
  } catch (error) {
    feed.end({ error });
  }
}

function aborted(signal: AbortSignal): { readonly promise: Promise<void>; forget(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  if (signal.aborted) resolve();
  else signal.addEventListener('abort', onAbort, { once: true });
  return { promise, forget: () => signal.removeEventListener('abort', onAbort) };
}

function checkRun(run: unknown): void {
  const { events, output } = (run ?? {}) as { events?: Partial<AsyncIterable<unknown>>; output?: unknown };
  const isRun =
    typeof events?.[Symbol.asyncIterator] === 'function' &&
    typeof (output as PromiseLike<unknown>)?.then === 'function';
  if (!isRun)
    throw new RunError('validation', 'run.act must return events that can be iterated, and a promise of the output');
}
