import { jsonText } from './json.ts';

interface ErrorKind {
  /** May the same request or run be tried again unchanged and succeed? */
  readonly retryable: boolean;
  /** The status the producer answers with when the code reaches a caller. */
  readonly http: number;
  /** `run` codes may end a run and appear in its log; `admission` codes are only ever thrown to the caller. */
  readonly scope: 'run' | 'admission' | 'both';
  readonly when: string;
}

function final(http: number, scope: ErrorKind['scope'], when: string): ErrorKind {
  return { retryable: false, http, scope, when };
}

function retry(http: number, scope: ErrorKind['scope'], when: string): ErrorKind {
  return { retryable: true, http, scope, when };
}

/** The one table of error codes. */
export const errorTable = {
  validation: final(400, 'both', 'A request, agent, output or argument does not have the required shape.'),
  content_filter: final(422, 'run', 'The provider refused the content.'),
  provider_auth: final(502, 'run', 'The provider did not accept the credentials.'),
  provider_rate_limit: retry(503, 'run', 'The provider kept answering 429 until the attempts were used up.'),
  provider_unavailable: retry(503, 'run', 'The provider failed, timed out, or ended its answer early.'),
  context_length_exceeded: final(
    422,
    'run',
    'The conversation does not fit into the context window of any candidate model.',
  ),
  tool_denied: final(403, 'run', 'A grant or a policy refused a tool call.'),
  tool_failed: retry(500, 'run', 'A tool failed and its policy ends the run, or the correction rounds were used up.'),
  tool_outcome_unknown: final(
    500,
    'run',
    'A tool call may or may not have taken effect and the tool says that this fails the run.',
  ),
  tool_unavailable: final(500, 'run', 'A tool needs a capability that this host does not have.'),
  sandbox_error: retry(
    500,
    'run',
    'No process for scripts could be started on the worker, and the policy for failed tools ends the run.',
  ),
  turn_limit: final(
    422,
    'run',
    'The run reached its limit of steps, model calls or tool calls, or its journal its largest size.',
  ),
  no_progress: final(
    422,
    'run',
    'The run went in circles, and neither the model nor a person ended that. `details.pattern` says how.',
  ),
  run_timeout: final(422, 'run', 'The run was on workers for longer than `limits.wallTimeMs`.'),
  deadline_exceeded: final(422, 'both', 'The run did not end before its deadline, or a redrive gives it no new one.'),
  input_unavailable: final(
    422,
    'run',
    'A file of the input could not be fetched from its URL, or is not one that is read. `details.reason` says why.',
  ),
  budget_exceeded: final(402, 'run', 'The next call would spend more than the run was given.'),
  budget_unpriced: final(402, 'run', 'A run with a cap wants a model without a known price and the run denies that.'),
  depth_limit: final(422, 'run', 'Delegation between agents went too deep.'),
  output_validation_failed: final(422, 'run', 'The answer does not match the output schema.'),
  incomplete_tool_call: retry(503, 'run', 'The model was cut off while it wrote the arguments of a tool call.'),
  guardrail_blocked: final(403, 'run', 'A guardrail stopped the run.'),
  policy_denied: final(403, 'run', 'The policy refused a model call.'),
  merge_blocked: final(403, 'run', 'The merge guard refused a merged answer.'),
  protocol_injection_rejected: final(403, 'run', 'The protocol guard refused control characters.'),
  multiple_handoffs_in_step: final(422, 'run', 'The model asked for two handoffs in one step.'),
  handoff_target_not_found: final(422, 'run', 'A handoff names an agent that does not exist.'),
  run_aborted: final(409, 'run', 'The run was aborted while approvals were pending and the abort asked for failure.'),
  progress_write_failed: retry(
    500,
    'both',
    'A progress note could not be written; with 409: its number is taken, or the run has no room for more.',
  ),
  run_state_malformed: final(422, 'both', 'A saved run state cannot be read.'),
  run_state_version_unsupported: final(422, 'both', 'A saved run state has a version this build does not read.'),
  mcp_unavailable: retry(503, 'run', 'A required MCP server cannot be reached.'),
  lock_lost: retry(503, 'run', 'Another worker has claimed the run.'),
  worker_lost: retry(500, 'run', 'The run brought down every worker that tried it, or its job kept vanishing.'),
  cancelled: final(409, 'run', 'The run was cancelled.'),
  batch_expired: final(422, 'admission', 'The batch expired before the line had its answer.'),
  internal: final(500, 'both', 'A defect or a wiring mistake on our side.'),

  invalid_json: final(400, 'admission', 'The body is not JSON.'),
  too_deep: final(400, 'admission', 'The JSON is nested deeper than 64 levels.'),
  invalid_id: final(400, 'admission', 'An id is not 1 to 128 characters of A-Z a-z 0-9 . _ : -'),
  payload_too_large: final(413, 'admission', 'The body, the input or the metadata is over its limit.'),
  secret_in_payload: final(422, 'admission', 'A key in the payload looks like a credential.'),
  idempotency_conflict: final(409, 'admission', 'The execution id was used before with another body.'),
  unknown_queue: final(
    400,
    'admission',
    'The request names a queue that does not exist; details.queues lists those that do.',
  ),
  queue_full: retry(
    429,
    'admission',
    'The queue is over its configured length, or the tenant over its open runs or threads; with 503: all tenants are over theirs, or Redis over its memory mark. `details.limit` says which.',
  ),
  queue_expired: retry(422, 'run', 'No worker began the run within its `queueTtlMs`.'),
  overloaded: retry(503, 'admission', 'The producer is busy with other large requests.'),
  queue_unavailable: retry(503, 'both', 'Redis cannot be reached or refuses writes.'),
  unauthorized: final(401, 'admission', 'The API key is missing or unknown.'),
  rate_limited: final(
    429,
    'admission',
    'Too many wrong API keys came to the login from this address within a minute. A right one is let in all the same.',
  ),
  forbidden: final(403, 'admission', 'The API key lacks the scope for this route.'),
  not_found: final(404, 'admission', 'There is no such route or resource.'),
  gone: final(410, 'admission', 'There was such a run, and it is past its time: nothing of it is kept any more.'),
  unsupported_media_type: final(415, 'admission', 'The content type is not one this route reads.'),
  agent_manifest_invalid: final(422, 'admission', 'An agent definition has problems; all are listed.'),
  invalid_config: final(500, 'admission', 'The configuration has problems; all are listed.'),
  invalid_preferred_model: final(422, 'admission', 'A model tier or preferred model is not one that exists.'),
  invalid_fallback_policy: final(422, 'admission', 'A fallback list is empty or malformed.'),
  unknown_capability: final(422, 'admission', 'An agent names a capability that is not registered.'),
  model_not_allowed: final(422, 'admission', 'The model is not in the allow-list or the catalogue.'),
  concurrent_run: final(
    409,
    'both',
    'Another run of this agent object or of this thread is running. A delayed run fails with it.',
  ),
  thread_suspended: final(
    409,
    'both',
    'The thread waits for a decision and refuses new messages. A delayed run fails with it.',
  ),
  run_suspended: final(
    409,
    'admission',
    'The run waits for a person or for money, and the answer that was asked for cannot show it. It goes on once that is decided; `details.runId` names it.',
  ),
  still_running: retry(
    504,
    'admission',
    'The answer did not come within the time that this route waits. The run goes on; `details.runId` names it.',
  ),
  execution_not_found: final(404, 'admission', 'The events of this run are past their retention.'),
  replay_truncated: final(
    410,
    'admission',
    'The events asked for are older than the replay buffer; details.firstSequence says where it begins.',
  ),
  run_not_found: final(404, 'admission', 'There is no run with this id.'),
  already_terminal: final(409, 'admission', 'The run has already ended.'),
  approval_not_pending: final(409, 'admission', 'The call is not waiting for a decision.'),
  approval_expired: final(409, 'admission', 'The decision came after the approval expired.'),
  middleware_order_violation: final(500, 'admission', 'Provider middleware is composed in an unsafe order.'),
};

export type ErrorCode = keyof typeof errorTable;

/**
 * The only error class of this project. Branch on `code`, never on `message`. `retryable` and `http` come from the table unless a
 * documented case of the same code differs (for instance `provider_unavailable` for a tool stop without tool calls).
 */
export class RunError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;
  /** The status that a producer answers with. */
  readonly http: number;
  readonly details: unknown;

  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; details?: unknown; retryable?: boolean; http?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'RunError';
    this.code = code;
    this.retryable = options.retryable ?? errorTable[code].retryable;
    this.http = options.http ?? errorTable[code].http;
    this.details = options.details;
  }
}

/** Any thrown value as a RunError: its own kind unchanged, everything else `internal` with the original as cause. */
export function asRunError(thrown: unknown): RunError {
  if (thrown instanceof RunError) return thrown;
  return new RunError('internal', messageOf(thrown), { cause: thrown });
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The compiler's proof that a switch over a union names every variant. */
export function assertNever(value: never): never {
  throw new RunError('internal', `unexpected variant ${jsonText(value)}`);
}

/** An error as events, records and answers have it, as one that can be thrown. */
export function thrownOf({
  code,
  message,
  details,
  retryable,
}: Pick<RunError, 'code' | 'message' | 'retryable'> & { readonly details?: unknown }): RunError {
  return new RunError(code, message, { details, retryable });
}
