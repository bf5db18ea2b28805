import type { ServerResponse } from 'node:http';
import type { ErrorInfo } from '../../shared/base/errors.ts';
import type { Framing } from './stream-format.ts';

export interface EventWriting<T> {
  readonly response: ServerResponse;
  readonly format: Framing<T>;
  readonly keepAliveMs: number;
  /** Headers that every answer carries. */
  readonly headers: Readonly<Record<string, string>>;
  readonly describe: (error: unknown) => { readonly error: ErrorInfo };
}

/**
 * Writes events until they end, the client is gone or the process drains; never rejects. A reader that stops reading
 * stops us from taking further events, so that what is kept for it is one write buffer here and one inbox in the client;
 * one that does not read at all is cut off by the connection timeout. The stream ends without the terminal event only
 * when it is to be resumed.
 */
export async function writeEvents<T>(
  events: AsyncIterator<T>,
  first: Promise<IteratorResult<T>>,
  { response, format, keepAliveMs, headers, describe }: EventWriting<T>,
): Promise<void> {
  response.writeHead(200, {
    ...headers,
    'content-type': format.contentType,
    'cache-control': 'no-store',
    vary: 'accept',
    // Keeps nginx from buffering the stream.
    'x-accel-buffering': 'no',
    connection: 'close',
  });
  response.flushHeaders();
  const beat = setInterval(() => {
    if (!response.writableNeedDrain) response.write(format.keepAlive);
  }, keepAliveMs);
  try {
    for (let step = await first; !step.done && !response.destroyed; step = await events.next()) {
      const frame = format.frame(step.value);
      if (frame.length > 0 && !response.write(frame)) await drained(response);
    }
  } catch (error) {
    response.write(format.failure(describe(error)));
  } finally {
    clearInterval(beat);
    response.end();
    await events.return?.();
  }
}

async function drained(response: ServerResponse): Promise<void> {
  if (response.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const proceed = () => resolve();
  response.once('drain', proceed).once('close', proceed);
  await promise;
  response.off('drain', proceed).off('close', proceed);
}
