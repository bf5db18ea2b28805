import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { partsOf } from './answers.ts';
import type { OpenAnswer } from './link.ts';

/** A producer writes something every 15 seconds. After so much silence the connection is dead, whatever the network says. */
const silenceMs = 45_000;
/** Of one event; the largest carry an answer of 1 MiB. */
const maxEventChars = 16 * 1024 * 1024;

export interface SilenceOptions {
  readonly silenceMs?: number;
}

/** The messages of an event stream, as they come. Throws when the connection breaks, and after 45 seconds without a byte. */
export async function* messagesOf(
  answer: OpenAnswer,
  options: SilenceOptions = {},
): AsyncGenerator<EventSourceMessage, void, undefined> {
  const arrived: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => void arrived.push(message), maxBufferSize: maxEventChars });
  for await (const text of textsOf(answer, options)) {
    parser.feed(text);
    for (let message = arrived.shift(); message; message = arrived.shift()) yield message;
  }
}

/** The lines of an answer. The last one counts only when it is complete. Throws as {@link messagesOf}. */
export async function* linesOf(
  answer: OpenAnswer,
  options: SilenceOptions = {},
): AsyncGenerator<string, void, undefined> {
  let rest = '';
  for await (const text of textsOf(answer, options)) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    yield* lines.filter((line) => line !== '');
  }
}

async function* textsOf(answer: OpenAnswer, options: SilenceOptions): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  for await (const part of watched(answer, partsOf(answer.response), options))
    yield decoder.decode(part, { stream: true });
}

/** The same parts; a silence between two of them, the time that their reader takes not counted, breaks the connection. */
export async function* watched<T>(
  answer: OpenAnswer,
  parts: AsyncIterable<T>,
  { silenceMs: limitMs = silenceMs }: SilenceOptions = {},
): AsyncGenerator<T, void, undefined> {
  let timer = setTimeout(() => answer.abort(), limitMs);
  try {
    for await (const part of parts) {
      clearTimeout(timer);
      yield part;
      timer = setTimeout(() => answer.abort(), limitMs);
    }
  } finally {
    clearTimeout(timer);
  }
}
