import type { WriteStream } from 'node:tty';
import { assertNever } from '../../../shared/base/errors.ts';
import type { ThreadEvent } from '../../../shared/contract/thread/thread-event.ts';
import { dim, oneLine, red } from './paint.ts';

const maxTextChars = 200;

/** What followed a run of a thread, for a person: one line. */
export function threadEventLine(stream: WriteStream, event: ThreadEvent): string {
  const when = event.timestamp.slice(0, 19).replace('T', ' ');
  return `${dim(stream, `${event.sequenceNumber}  ${when}  ${event.runId}`)}  ${saidOf(stream, event)}\n`;
}

function saidOf(stream: WriteStream, event: ThreadEvent): string {
  switch (event.type) {
    case 'thread.title_generated':
      return `title: ${oneLine(event.title, maxTextChars)}`;
    case 'thread.embedding_done':
      return `embeddings of ${event.messages} message${event.messages === 1 ? '' : 's'} by ${oneLine(event.model, maxTextChars)}`;
    case 'postrun.failed':
      return red(stream, oneLine(`${event.effect} failed: ${event.error.code}: ${event.error.message}`, maxTextChars));
    default:
      return assertNever(event);
  }
}
