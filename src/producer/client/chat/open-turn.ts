import { RunError } from '../../../shared/base/errors.ts';
import { runIdForExecution } from '../../../shared/base/ids.ts';
import { isTerminalStatus, type RunRecord } from '../../../shared/contract/run.ts';
import { acceptRun } from '../accept/accept.ts';
import type { Caller } from '../accept/caller.ts';
import type { ClientCore } from '../client-core.ts';
import { getRecord } from '../read-run.ts';
import { checkExecutionId, turnToRun } from './chat-request.ts';

/** A turn that has a run. */
export interface OpenTurn {
  readonly runId: string;
  readonly executionId: string;
  readonly tenantId: string;
  readonly sessionId: string;
  /** Undefined for a run that was not submitted as a turn. */
  readonly turnIndex: number | undefined;
  /** The run was there already. */
  readonly attached: boolean;
  /** It had even ended. */
  readonly replayed: boolean;
}

export interface ChatOptions {
  /** Names the turn. Default: `deriveExecutionId` of project, session and turn. */
  readonly executionId?: string | undefined;
  readonly signal?: AbortSignal;
}

/** Submits a turn, or finds the run that it has. Throws as `Millrace.enqueue` does. */
export async function submitTurn(
  asked: unknown,
  caller: Caller,
  { executionId, signal }: ChatOptions,
  core: ClientCore,
): Promise<OpenTurn> {
  const { tenant } = caller;
  const { request, turnIndex } = turnToRun(asked, tenant, executionId);
  const { runId, status, attached } = await acceptRun(request, caller, core, signal);
  const replayed = attached && isTerminalStatus(status);
  return {
    runId,
    executionId: request.executionId,
    tenantId: tenant,
    sessionId: request.sessionId,
    turnIndex,
    attached,
    replayed,
  };
}

/** The turn that was submitted under this execution id. Throws `execution_not_found`, `invalid_id`. */
export async function findTurn(executionId: string, tenant: string, core: ClientCore): Promise<OpenTurn> {
  const { runId, request, status } = await recordOf(checkExecutionId(executionId), tenant, core);
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

async function recordOf(executionId: string, tenant: string, core: ClientCore): Promise<RunRecord> {
  try {
    return await getRecord(runIdForExecution(tenant, executionId), tenant, core);
  } catch (error) {
    throw isUnknownRun(error) ? executionNotFound(executionId) : error;
  }
}

export function isUnknownRun(error: unknown): boolean {
  return error instanceof RunError && error.code === 'run_not_found';
}

export function executionNotFound(executionId: string): RunError {
  return new RunError('execution_not_found', `nothing is known of the execution ${executionId}`);
}
