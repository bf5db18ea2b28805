import { dateTime, dim, oneLine, printable } from './paint.ts';
import type { WriteStream } from 'node:tty';
import { assertNever } from '../../../shared/base/errors.ts';
import type { ThreadItem } from '../../../shared/contract/thread/thread-items.ts';

const maxDataChars = 400;

/** One message or call of a thread, for a person: a heading, and the text. */
export function itemText(stream: WriteStream, item: ThreadItem): string {
  const position = item.seq === undefined ? 'live' : String(item.seq);
  const heading = `${position}  ${headingOf(item)}  ${dateTime(item.at)}`;
  const body = bodyOf(item);
  return `${dim(stream, heading)}\n${body === '' ? '' : `${body}\n`}\n`;
}

function headingOf(item: ThreadItem): string {
  switch (item.kind) {
    case 'message':
      return item.role;
    case 'assistant_text':
      return 'assistant';
    case 'tool_use':
      return `call ${oneLine(item.toolCallId, 80)}`;
    case 'tool_result':
      return `${item.isError ? 'error' : 'result'} of ${oneLine(item.toolCallId, 80)}`;
    default:
      return assertNever(item);
  }
}

function bodyOf(item: ThreadItem): string {
  switch (item.kind) {
    case 'message':
    case 'assistant_text':
      return printable(item.text);
    case 'tool_use':
      return oneLine(`${item.name}(${JSON.stringify(item.input)})`, maxDataChars);
    case 'tool_result':
      return oneLine(item.content, maxDataChars);
    default:
      return assertNever(item);
  }
}
