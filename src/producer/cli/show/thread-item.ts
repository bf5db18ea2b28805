import type { WriteStream } from 'node:tty';
import { assertNever } from '../../../shared/errors.ts';
import { formatUsd } from '../../../shared/money.ts';
import type { ThreadItem } from '../../../shared/thread-items.ts';
import { count, dim, duration, oneLine, printable } from './paint.ts';

const maxDataChars = 400;

/** One thing that happened in a thread, for a person: a heading, and what was said. */
export function itemText(stream: WriteStream, item: ThreadItem): string {
  const place = item.seq === undefined ? 'live' : String(item.seq);
  const heading = `${place}  ${headingOf(item)}  ${item.at.slice(0, 19).replace('T', ' ')}`;
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
    case 'handoff':
      return item.kind;
    case 'result':
      return item.status;
    case 'summary':
      return `summary up to ${item.upTo}`;
    default:
      return assertNever(item);
  }
}

function bodyOf(item: ThreadItem): string {
  switch (item.kind) {
    case 'message':
    case 'assistant_text':
    case 'summary':
      return printable(item.text);
    case 'tool_use':
      return oneLine(`${item.name}(${JSON.stringify(item.input)})`, maxDataChars);
    case 'tool_result':
      return oneLine(item.content, maxDataChars);
    case 'handoff': {
      const { fromAgentId, toAgentId, descriptor } = item;
      return oneLine(`${fromAgentId} to ${toAgentId}, through ${JSON.stringify(descriptor)}`, maxDataChars);
    }
    case 'result': {
      const facts = [
        `run ${item.runId}`,
        `${count(item.steps)} step${item.steps === 1 ? '' : 's'}`,
        duration(item.durationMs),
        formatUsd(item.costMicrocents),
        item.error ?? '',
      ];
      return facts.filter((fact) => fact !== '').join(', ');
    }
    default:
      return assertNever(item);
  }
}
