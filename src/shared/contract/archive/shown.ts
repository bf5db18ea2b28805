import { defined } from '../../base/collections.ts';
import { messageIn, toolErrorHints } from '../../base/errors.ts';
import { canonicalJson, jsonOr } from '../../base/json.ts';
import type { Redactor } from '../../base/redact.ts';
import type { JournalEntryOf } from '../journal/journal.ts';
import { textOf, toolCallsOf, type Message } from '../message.ts';
import { isSummary } from '../thread/summary-message.ts';
import type { CallView, ShownMessage } from './run-steps.ts';

/** The beginning of what stands in place of a credential. */
const mask = '[redacted';

/** A message as it may be shown: credentials are masked, and secret results are withheld. */
export function shownMessage(message: Message, redactor: Redactor): ShownMessage {
  switch (message.role) {
    case 'system':
      return { role: 'system', content: redactor.text(message.content) };
    case 'user': {
      const kind = isSummary(message) ? 'summary' : undefined;
      return defined({ role: 'user', content: redactor.text(message.content), files: message.files, kind });
    }
    case 'assistant': {
      const calls = toolCallsOf(message).map(({ id, name }) => ({ toolCallId: id, toolName: name }));
      const content = redactor.text(textOf(message));
      return defined({ role: 'assistant', content, calls: calls.length > 0 ? calls : undefined });
    }
    case 'tool': {
      const { toolCallId, toolName, isError, sensitivity } = message;
      const content = sensitivity === 'secret' ? '' : redactor.text(message.content);
      return defined({ role: 'tool', toolCallId, toolName, content, isError: isError ? true : undefined });
    }
    default:
      return message satisfies never;
  }
}

/** Arguments as they may be shown. A text that is no JSON is shown as a text. */
export function shownArgs(given: unknown, redactor: Redactor): Pick<CallView, 'args' | 'argsMasked'> {
  const value = typeof given === 'string' ? jsonOr(given, given) : given;
  const args = redactor.value(value);
  const text = canonicalJson(args);
  // What the archive has is masked already.
  return text === canonicalJson(value) && !text.includes(mask) ? { args } : { args, argsMasked: true };
}

type Ended = Pick<JournalEntryOf<'tool_result'>, 'content' | 'sensitivity' | 'errorKind' | 'trust'>;

/** What became of a call. Also an error may quote what a secret tool has seen. */
export function shownEnd(
  { content, sensitivity, errorKind, trust }: Ended,
  redactor: Redactor,
): Pick<CallView, 'result' | 'error'> {
  const isWithheld = sensitivity === 'secret';
  const text = isWithheld ? '' : redactor.text(content);
  if (errorKind !== undefined) {
    const message = isWithheld ? 'withheld: the tool is secret' : messageIn(text);
    return { error: { kind: errorKind, message, hint: toolErrorHints[errorKind] } };
  }
  return { result: defined({ content: text, trust, sensitivity, withheld: isWithheld ? true : undefined }) };
}
