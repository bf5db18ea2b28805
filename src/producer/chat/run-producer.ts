import { createProjector } from '../../shared/dialects/project.ts';
import { RunError, type ErrorInfo } from '../../shared/base/errors.ts';
import type { RunEvent } from '../../shared/contract/event.ts';
import type { ChatEvent } from './chat-event.ts';
import type { ChatTurnProducer } from './hooks.ts';

/**
 * The events of a run, of an agent in this process for instance, as `handleChatTurn` takes them: in the dialect
 * `ndjson-chat` without its envelope. The turn fails with the run, and when the events end before the run does.
 *
 * @example
 * const hooks = { produce: () => runProducer(createAgent(support).stream(message)), persistAssistantMessage };
 */
export function runProducer(events: AsyncIterable<RunEvent>): ChatTurnProducer {
  let text = '';
  return { stream: chatEvents(events, (final) => (text = final)), finalText: () => text };
}

async function* chatEvents(
  events: AsyncIterable<RunEvent>,
  onText: (text: string) => void,
): AsyncGenerator<ChatEvent, void, undefined> {
  const project = createProjector('ndjson-chat', { tenant: '' });
  for await (const event of events) {
    if (event.type === 'run.failed') throw failure(event.error);
    if (event.type === 'run.cancelled') throw new RunError('cancelled', 'the run was cancelled');
    if (event.type === 'run.completed') onText(event.result.text);
    yield* project(event).filter(({ type }) => !type.startsWith('session.run.'));
    if (event.type === 'run.completed') return;
  }
  throw new RunError('internal', 'the run has no answer: its events ended before it did');
}

/** The error of a run, thrown. */
export function failure({ code, message, details, retryable }: ErrorInfo): RunError {
  return new RunError(code, message, { details, retryable });
}
