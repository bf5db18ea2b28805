import { dateTime, dim } from './paint.ts';
import { oneLine, printable } from '../../../shared/base/words.ts';
import type { WriteStream } from 'node:tty';
import { assertNever } from '../../../shared/base/errors.ts';
import type { ThreadItem } from '../../../shared/contract/thread/thread-items.ts';

const maxDataChars = 400;

/** One message or call of a thread, for a person: a heading, and the text. */
export function itemText(stream: WriteStream, item: ThreadItem): string {
  const position = item.seq === undefined ? 'live' : String(item.seq);
  const [heading, body] = partsOf(item);
  return `${dim(stream, `${position}  ${heading}  ${dateTime(item.at)}`)}\n${body === '' ? '' : `${body}\n`}\n`;
}

function partsOf(item: ThreadItem): readonly [heading: string, body: string] {
  switch (item.kind) {
    case 'message':
      return [item.role, printable(item.text)];
    case 'assistant_text':
      return ['assistant', printable(item.text)];
    case 'tool_use': {
      const call = `${item.name}(${JSON.stringify(item.input)})`;
      return [`call ${oneLine(item.toolCallId, 80)}`, oneLine(call, maxDataChars)];
    }
    case 'tool_result': {
      const kind = item.isError ? 'error' : 'result';
      return [`${kind} of ${oneLine(item.toolCallId, 80)}`, oneLine(item.content, maxDataChars)];
    }
    default:
      return assertNever(item);
  }
}
