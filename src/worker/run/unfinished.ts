import { cutText, type Redactor } from '../../shared/base/redact.ts';
import { resultsSoFar, type TurnState } from '../../shared/contract/journal/fold.ts';
import { textOf, withShownCommentary, type Message, type ToolMessage } from '../../shared/contract/message.ts';
import type { UnfinishedWork } from '../../shared/contract/unfinished.ts';

const maxTextBytes = 16_384;
const maxResults = 10;
const maxResultBytes = 1_024;

/**
 * What is left of a run that ends without an answer: the text that was shown last, else what its model wrote last, and what
 * its tools answered. Undefined when there is none of it.
 */
export function unfinishedOf(state: TurnState, shownText: string, redactor: Redactor): UnfinishedWork | undefined {
  const messages = [...state.earlier, ...state.own];
  const text = shownText || lastTextOf(messages);
  const results = [...messages, ...resultsSoFar(state)].filter((message) => message.role === 'tool');
  if (text === '' && results.length === 0) return undefined;
  const listed = results.slice(-maxResults);
  return {
    text: cutText(redactor.text(text), maxTextBytes),
    results: listed.map((result) => shownResult(result, redactor)),
    omitted: results.length - listed.length,
  };
}

function lastTextOf(messages: readonly Message[]): string {
  const said = messages.map((message) => (message.role === 'assistant' ? textOf(withShownCommentary(message)) : ''));
  return said.findLast((text) => text !== '') ?? '';
}

function shownResult({ toolCallId, toolName, content, isError, sensitivity }: ToolMessage, redactor: Redactor) {
  const about = { toolCallId, toolName, isError: isError ? (true as const) : undefined };
  if (sensitivity === 'secret') return { ...about, content: '', withheld: true as const };
  return { ...about, content: cutText(redactor.text(content), maxResultBytes) };
}
