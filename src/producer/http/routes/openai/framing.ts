import type { ErrorInfo } from '../../../../shared/base/errors.ts';
import { errorTable } from '../../../../shared/base/errors.ts';
import type { ResponseEvent } from '../../../openai/response-events.ts';
import { wireErrorOf } from '../../../openai/wire-error.ts';
import type { Framing } from '../../event-stream.ts';
import { wireJson } from '../../wire-json.ts';

const keepAlive = ': keep-alive\n\n';
const contentType = 'text/event-stream; charset=utf-8';

/** The end of a streamed completion. */
export const done = 'DONE';

/** Chunks of a completion, and its end. */
export const chatFraming: Framing<object | typeof done> = {
  contentType,
  keepAlive,
  frame: (item) => Buffer.from(item === done ? 'data: [DONE]\n\n' : `data: ${wireJson(item)}\n\n`),
  failure: ({ error }) => `data: ${wireJson(wireErrorOf(error, statusOf(error)))}\n\n`,
};

/** Events of a response. An error has no number: the client resumes after the last one that it has. */
export const responseFraming: Framing<ResponseEvent> = {
  contentType,
  keepAlive,
  frame: (event) => Buffer.from(`event: ${event.type}\ndata: ${wireJson(event)}\n\n`),
  failure: ({ error: info }) => {
    const { error } = wireErrorOf(info, statusOf(info));
    const { code, message, param } = error;
    return `event: error\ndata: ${wireJson({ type: 'error', code, message, param, error })}\n\n`;
  },
};

function statusOf({ code }: ErrorInfo): number {
  return errorTable[code].http;
}
