import { z } from 'zod';
import { deriveExecutionId, deriveThreadId } from '../../../shared/base/execution-id.ts';
import { publicId } from '../../../shared/base/ids.ts';
import { chatPosition, runRequest, type RunRequestInput } from '../../../shared/contract/run.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { parseSafely } from '../accept/validate.ts';

const { agent, input, thread, budget, limits, overrides, metadata } = runRequest.shape;

/** A message of a user to an agent. The turn is known by its session and its number, counted from 0. */
export const chatTurnRequest = z.strictObject({
  agent,
  message: input,
  sessionId: publicId,
  ...chatPosition.shape,
  /** Whose session it is. Default: the tenant. */
  projectId: publicId.optional(),
  /** Default: the session, after its project where it has one. */
  thread,
  budget,
  limits,
  overrides,
  metadata,
});
export type ChatTurnRequest = z.input<typeof chatTurnRequest>;

/** The run that a turn is. */
export interface TurnToRun {
  readonly request: RunRequestInput & { readonly executionId: string; readonly sessionId: string };
  readonly turnIndex: number;
}

/** Throws as `parseRequest` does, with every problem at once. */
export function turnToRun(asked: unknown, tenant: string, executionId: string | undefined): TurnToRun {
  const parsed = parseSafely(chatTurnRequest, 'message', asked);
  const { message, sessionId, turnIndex, userId, projectId = tenant, ...rest } = parsed;
  const session = { sessionId, projectId: projectId === tenant ? undefined : projectId };
  const request = {
    ...rest,
    input: message,
    sessionId,
    thread: rest.thread ?? deriveThreadId(session),
    chat: { turnIndex, userId },
    executionId: checkExecutionId(executionId ?? deriveExecutionId({ projectId, sessionId, turnIndex })),
  };
  return { request, turnIndex };
}

/** Throws `invalid_id`. */
export function checkExecutionId(id: unknown): string {
  const parsed = publicId.safeParse(id);
  if (parsed.success) return parsed.data;
  throw new RunError('invalid_id', `the execution id ${parsed.error.issues[0]?.message ?? 'is not valid'}`);
}
