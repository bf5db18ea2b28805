import { RunError } from '../../../shared/base/errors.ts';
import { runIdForExecution, publicId } from '../../../shared/base/ids.ts';
import { isTerminalStatus, chatPosition, runRequestBody, type RunRequestInput } from '../../../shared/contract/run.ts';
import { acceptRun } from '../accept/accept.ts';
import { parseSafely } from '../accept/validate.ts';
import type { TenantClient } from '../client-core.ts';
import { getRecord } from '../read-run.ts';
import { notFoundAs, type OpenTurn } from './known-turn.ts';
import { z } from 'zod';
import { deriveExecutionId, deriveThreadId } from '../../../shared/base/execution-id.ts';

export interface ChatOptions {
  /** Names the turn. Default: `deriveExecutionId` of project, session and turn. */
  readonly executionId?: string | undefined;
  readonly signal?: AbortSignal;
}

/** Submits a turn, or finds the run that it has. Throws as `Millrace.enqueue` does. */
export async function submitTurn(
  asked: unknown,
  { executionId, signal }: ChatOptions,
  client: TenantClient,
): Promise<OpenTurn> {
  const { tenant } = client;
  const request = turnToRun(asked, tenant, executionId);
  const { runId, status, attached } = await acceptRun(request, client, signal);
  return {
    runId,
    executionId: request.executionId,
    tenantId: tenant,
    sessionId: request.sessionId,
    turnIndex: request.chat.turnIndex,
    attached,
    replayed: attached && isTerminalStatus(status),
  };
}

/** The turn that was submitted under this execution id. Throws `execution_not_found`, `invalid_id`. */
export async function findTurn(executionId: string, client: TenantClient): Promise<OpenTurn> {
  const id = runIdForExecution(client.tenant, checkExecutionId(executionId));
  const { runId, tenant, request, status } = await getRecord(id, client).catch(notFoundAs(executionId));
  return {
    runId,
    executionId,
    tenantId: tenant,
    sessionId: request.sessionId ?? request.thread ?? runId,
    turnIndex: request.chat?.turnIndex,
    attached: true,
    replayed: isTerminalStatus(status),
  };
}

const { agent, input, thread, budget, limits, overrides, metadata } = runRequestBody.shape;

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

/** The run that a turn is. Throws as `parseRequest` does, with every problem at once. */
function turnToRun(asked: unknown, tenant: string, executionId: string | undefined) {
  const parsed = parseSafely(chatTurnRequest, 'message', asked);
  const { message, sessionId, turnIndex, userId, projectId = tenant, ...rest } = parsed;
  const session = { sessionId, projectId: projectId === tenant ? undefined : projectId };
  return {
    ...rest,
    input: message,
    sessionId,
    thread: rest.thread ?? deriveThreadId(session),
    chat: { turnIndex, userId },
    executionId: checkExecutionId(executionId ?? deriveExecutionId({ projectId, sessionId, turnIndex })),
  } satisfies RunRequestInput;
}

/** Throws `invalid_id`. */
function checkExecutionId(id: unknown): string {
  const parsed = publicId.safeParse(id);
  if (parsed.success) return parsed.data;
  throw new RunError('invalid_id', `the execution id ${parsed.error.issues[0]?.message ?? 'is not valid'}`);
}
