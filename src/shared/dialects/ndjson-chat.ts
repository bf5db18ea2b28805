import type { RunEvent } from '../contract/event.ts';
import type { Dialect, DialectEvent } from './dialect.ts';
import { runtimeStream } from './runtime-stream.ts';

/**
 * The lines of a chat turn: `{type, data}`, between `session.run.started` and `session.run.completed` or
 * `session.run.failed`. All text of the run is one message, with a part per step. Tools, reasoning and costs have the
 * names of the runtime stream. The session is the session, the thread or the run, whichever is known first.
 */
export const ndjsonChat: Dialect = (context) => {
  const runtime = runtimeStream(context);
  let started = false;
  let step = 0;

  function begin(event: RunEvent): DialectEvent[] {
    if (started) return [];
    started = true;
    return line('session.run.started', { sessionId: sessionOf(event), tenantId: context.tenant });
  }

  return (event) => {
    const projected = runtime(event).flatMap(({ type, task: _task, timestamp: _at, ...data }) =>
      isLine(type) ? line(type, data) : [],
    );
    const sessionId = sessionOf(event);
    const part = { id: `${event.runId}:${step}`, type: 'text' };
    switch (event.type) {
      case 'run.started':
        return begin(event);
      case 'step.start':
        step = event.stepNumber;
        return projected;
      case 'text.delta':
        return line('message.part.updated', { messageId: event.runId, delta: event.delta, part });
      case 'step.reset':
        return line('message.part.updated', { messageId: event.runId, part: { ...part, text: '' } });
      case 'run.completed': {
        const result = line('result', { finalText: event.result.text });
        return [...begin(event), ...result, ...line('session.run.completed', { sessionId })];
      }
      case 'run.failed': {
        const { message } = event.error;
        return [...begin(event), ...line('error', { message }), ...line('session.run.failed', { sessionId, message })];
      }
      case 'run.cancelled':
        return [...begin(event), ...line('session.run.failed', { sessionId, message: 'cancelled' })];
      default:
        // What else there is to say has been said by the runtime stream, whose switch is exhaustive.
        return projected;
    }
  };
};

function isLine(type: string): boolean {
  return type !== 'text_delta' && type !== 'task_start' && type !== 'task_end' && type !== 'final';
}

function line(type: string, data: object): DialectEvent[] {
  return [{ type, data }];
}

function sessionOf({ sessionId, threadId, runId }: RunEvent): string {
  return sessionId ?? threadId ?? runId;
}
