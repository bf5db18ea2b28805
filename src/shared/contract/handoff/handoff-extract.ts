import { type Message, textOf, toolCallsOf } from '../message.ts';
import { isEnveloped } from '../thread/summary-message.ts';
import { clip } from '../../base/text.ts';

const heading = 'An extract of the conversation so far:';
const gap = '…';
/** A line of a long conversation gets this share of the room, so that no single message fills it. */
const shareOfLine = 4;

/**
 * The messages, in at most `maxChars` UTF-16 units: one line per message, the first line and as many of the last ones as
 * have room. Made of the texts of users and agents and of the names of called tools; results, summaries of them and reasoning are left out,
 * because their labels would be lost in a text. Undefined where there are no such messages. The same messages give the same text.
 */
export function extractOf(messages: readonly Message[], maxChars: number): string | undefined {
  const lines = messages.flatMap(lineOf);
  if (lines.length === 0) return undefined;
  const whole = [heading, ...lines].join('\n');
  if (whole.length <= maxChars) return whole;
  const room = maxChars - heading.length - gap.length - 2;
  const widest = Math.max(1, Math.floor(room / shareOfLine));
  const short = lines.map((line) => shortened(line, widest));
  const [first = '', ...rest] = short;
  const last = lastLines(rest, room - first.length - 1);
  const isComplete = last.length === rest.length;
  return [heading, first, ...(isComplete ? [] : [gap]), ...last].join('\n');
}

function lineOf(message: Message): string[] {
  switch (message.role) {
    case 'user':
      return message.sensitivity || isEnveloped(message.content) ? [] : saying('User', message.content);
    case 'assistant': {
      const called = toolCallsOf(message).map(({ name }) => name);
      return [
        ...saying('Agent', textOf(message)),
        ...(called.length > 0 ? saying('Agent called', called.join(', ')) : []),
      ];
    }
    default:
      return [];
  }
}

function saying(who: string, text: string): string[] {
  const line = text.replace(/\s+/g, ' ').trim();
  return line === '' ? [] : [`${who}: ${line}`];
}

function shortened(line: string, width: number): string {
  return line.length <= width ? line : `${clip(line, width - gap.length)}${gap}`;
}

function lastLines(lines: readonly string[], room: number): readonly string[] {
  let left = room;
  let from = lines.length;
  while (from > 0) {
    left -= (lines[from - 1] as string).length + 1;
    if (left < 0) break;
    from--;
  }
  return lines.slice(from);
}
