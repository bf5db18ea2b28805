import { z } from 'zod';
import { jsonText } from './json.ts';

/**
 * The one table of error codes. `retryable`: may the same request or run be tried again unchanged and succeed?
 * `http`: the status the producer answers with when the code reaches a caller. `scope`: `run` codes may end a run and
 * appear in its log; `admission` codes are only ever thrown to the caller; `both` may do either.
 */
export const errorTable = {
  validation: {
    retryable: false,
    http: 400,
    scope: 'both',
    when: 'A request, agent, output or argument does not have the required shape.',
  },
  content_filter: { retryable: false, http: 422, scope: 'run', when: 'The provider refused the content.' },
  provider_auth: { retryable: false, http: 502, scope: 'run', when: 'The provider did not accept the credentials.' },
  provider_rate_limit: {
    retryable: true,
    http: 503,
    scope: 'run',
    when: 'The provider kept answering 429 until the attempts were used up.',
  },
  provider_unavailable: {
    retryable: true,
    http: 503,
    scope: 'run',
    when: 'The provider failed, timed out, or ended its answer early.',
  },
  context_length_exceeded: {
    retryable: false,
    http: 422,
    scope: 'run',
    when: 'The conversation does not fit into the context window of any candidate model.',
  },
  tool_denied: { retryable: false, http: 403, scope: 'run', when: 'A grant or a policy refused a tool call.' },
  tool_failed: {
    retryable: true,
    http: 500,
    scope: 'run',
    when: 'A tool failed and its policy ends the run, or the correction rounds were used up.',
  },
  tool_outcome_unknown: {
    retryable: false,
    http: 500,
    scope: 'run',
    when: 'A tool call may or may not have taken effect and the tool says that this fails the run.',
  },
  tool_unavailable: {
    retryable: false,
    http: 500,
    scope: 'run',
    when: 'A tool needs a capability that this host does not have.',
  },
  sandbox_error: { retryable: true, http: 500, scope: 'run', when: 'The code sandbox could not start.' },
  turn_limit: {
    retryable: false,
    http: 422,
    scope: 'run',
    when: 'The run reached its limit of steps, model calls or tool calls.',
  },
  run_timeout: {
    retryable: false,
    http: 422,
    scope: 'run',
    when: 'The run was on workers for longer than `limits.wallTimeMs`.',
  },
  deadline_exceeded: {
    retryable: false,
    http: 422,
    scope: 'both',
    when: 'The run did not end before its deadline, or a redrive gives it no new one.',
  },
  budget_exceeded: {
    retryable: false,
    http: 402,
    scope: 'run',
    when: 'The next call would spend more than the run was given.',
  },
  budget_unpriced: {
    retryable: false,
    http: 402,
    scope: 'run',
    when: 'A run with a cap wants a model without a known price and the run denies that.',
  },
  depth_limit: { retryable: false, http: 422, scope: 'run', when: 'Delegation between agents went too deep.' },
  output_validation_failed: {
    retryable: false,
    http: 422,
    scope: 'run',
    when: 'The answer does not match the output schema.',
  },
  incomplete_tool_call: {
    retryable: true,
    http: 503,
    scope: 'run',
    when: 'The model was cut off while it wrote the arguments of a tool call.',
  },
  guardrail_blocked: { retryable: false, http: 403, scope: 'run', when: 'A guardrail stopped the run.' },
  policy_denied: { retryable: false, http: 403, scope: 'run', when: 'The policy refused a model call.' },
  merge_blocked: { retryable: false, http: 403, scope: 'run', when: 'The merge guard refused a merged answer.' },
  protocol_injection_rejected: {
    retryable: false,
    http: 403,
    scope: 'run',
    when: 'The protocol guard refused control characters.',
  },
  multiple_handoffs_in_step: {
    retryable: false,
    http: 422,
    scope: 'run',
    when: 'The model asked for two handoffs in one step.',
  },
  handoff_target_not_found: {
    retryable: false,
    http: 422,
    scope: 'run',
    when: 'A handoff names an agent that does not exist.',
  },
  run_aborted: {
    retryable: false,
    http: 409,
    scope: 'run',
    when: 'The run was aborted while approvals were pending and the abort asked for failure.',
  },
  progress_write_failed: {
    retryable: true,
    http: 500,
    scope: 'run',
    when: 'A progress artifact could not be written.',
  },
  run_state_malformed: { retryable: false, http: 422, scope: 'both', when: 'A saved run state cannot be read.' },
  run_state_version_unsupported: {
    retryable: false,
    http: 422,
    scope: 'both',
    when: 'A saved run state has a version this build does not read.',
  },
  mcp_unavailable: { retryable: true, http: 503, scope: 'run', when: 'A required MCP server cannot be reached.' },
  lock_lost: { retryable: true, http: 503, scope: 'run', when: 'Another worker has claimed the run.' },
  worker_lost: {
    retryable: true,
    http: 500,
    scope: 'run',
    when: 'The run brought down every worker that tried it, or its job kept vanishing.',
  },
  cancelled: { retryable: false, http: 409, scope: 'run', when: 'The run was cancelled.' },
  internal: { retryable: false, http: 500, scope: 'both', when: 'A defect or a wiring mistake on our side.' },

  invalid_json: { retryable: false, http: 400, scope: 'admission', when: 'The body is not JSON.' },
  too_deep: { retryable: false, http: 400, scope: 'admission', when: 'The JSON is nested deeper than 64 levels.' },
  invalid_id: {
    retryable: false,
    http: 400,
    scope: 'admission',
    when: 'An id is not 1 to 128 characters of A-Z a-z 0-9 . _ : -',
  },
  payload_too_large: {
    retryable: false,
    http: 413,
    scope: 'admission',
    when: 'The body, the input or the metadata is over its limit.',
  },
  secret_in_payload: {
    retryable: false,
    http: 422,
    scope: 'admission',
    when: 'A key in the payload looks like a credential.',
  },
  idempotency_conflict: {
    retryable: false,
    http: 409,
    scope: 'admission',
    when: 'The execution id was used before with another body.',
  },
  unknown_queue: {
    retryable: false,
    http: 400,
    scope: 'admission',
    when: 'The request names a queue that does not exist; details.queues lists those that do.',
  },
  queue_full: {
    retryable: true,
    http: 429,
    scope: 'admission',
    when: 'The queue is over its configured length, or the tenant over its open runs or threads; with 503: all tenants are over theirs, or Redis over its memory mark. `details.limit` says which.',
  },
  queue_expired: {
    retryable: true,
    http: 422,
    scope: 'run',
    when: 'No worker began the run within its `queueTtlMs`.',
  },
  overloaded: {
    retryable: true,
    http: 503,
    scope: 'admission',
    when: 'The producer is busy with other large requests.',
  },
  queue_unavailable: { retryable: true, http: 503, scope: 'both', when: 'Redis cannot be reached or refuses writes.' },
  unauthorized: { retryable: false, http: 401, scope: 'admission', when: 'The API key is missing or unknown.' },
  forbidden: { retryable: false, http: 403, scope: 'admission', when: 'The API key lacks the scope for this route.' },
  not_found: { retryable: false, http: 404, scope: 'admission', when: 'There is no such route or resource.' },
  unsupported_media_type: {
    retryable: false,
    http: 415,
    scope: 'admission',
    when: 'The content type is not one this route reads.',
  },
  agent_manifest_invalid: {
    retryable: false,
    http: 422,
    scope: 'admission',
    when: 'An agent definition has problems; all are listed.',
  },
  invalid_config: {
    retryable: false,
    http: 500,
    scope: 'admission',
    when: 'The configuration has problems; all are listed.',
  },
  invalid_preferred_model: {
    retryable: false,
    http: 422,
    scope: 'admission',
    when: 'A model tier or preferred model is not one that exists.',
  },
  invalid_fallback_policy: {
    retryable: false,
    http: 422,
    scope: 'admission',
    when: 'A fallback list is empty or malformed.',
  },
  unknown_capability: {
    retryable: false,
    http: 422,
    scope: 'admission',
    when: 'An agent names a capability that is not registered.',
  },
  model_not_allowed: {
    retryable: false,
    http: 422,
    scope: 'admission',
    when: 'The model is not in the allow-list or the catalogue.',
  },
  concurrent_run: {
    retryable: false,
    http: 409,
    scope: 'both',
    when: 'Another run of this agent object or of this thread is running. A delayed run fails with it.',
  },
  thread_suspended: {
    retryable: false,
    http: 409,
    scope: 'both',
    when: 'The thread waits for a decision and refuses new messages. A delayed run fails with it.',
  },
  execution_not_found: {
    retryable: false,
    http: 404,
    scope: 'admission',
    when: 'The events of this run are past their retention.',
  },
  replay_truncated: {
    retryable: false,
    http: 410,
    scope: 'admission',
    when: 'The events asked for are older than the replay buffer; details.firstSequence says where it begins.',
  },
  run_not_found: { retryable: false, http: 404, scope: 'admission', when: 'There is no run with this id.' },
  already_terminal: { retryable: false, http: 409, scope: 'admission', when: 'The run has already ended.' },
  approval_not_pending: {
    retryable: false,
    http: 409,
    scope: 'admission',
    when: 'The call is not waiting for a decision.',
  },
  approval_expired: {
    retryable: false,
    http: 409,
    scope: 'admission',
    when: 'The decision came after the approval expired.',
  },
  middleware_order_violation: {
    retryable: false,
    http: 500,
    scope: 'admission',
    when: 'Provider middleware is composed in an unsafe order.',
  },
} as const satisfies Record<
  string,
  { retryable: boolean; http: number; scope: 'run' | 'admission' | 'both'; when: string }
>;

export type ErrorCode = keyof typeof errorTable;

export const errorCode = z.enum(Object.keys(errorTable) as [ErrorCode, ...ErrorCode[]]);

/** How an error appears in events, run records and HTTP answers. Text is safe to show: scrubbed and at most 2 KiB. */
export const errorInfo = z.object({
  code: errorCode,
  message: z.string(),
  retryable: z.boolean(),
  correlationId: z.string().optional(),
  nodeId: z.string().optional(),
  reason: z.string().optional(),
  details: z.unknown().optional(),
});
export type ErrorInfo = z.infer<typeof errorInfo>;

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
  return new RunError('internal', thrown instanceof Error ? thrown.message : String(thrown), { cause: thrown });
}

/** The compiler's proof that a switch over a union names every variant. */
export function assertNever(value: never): never {
  throw new RunError('internal', `unexpected variant ${jsonText(value)}`);
}

/** Recovery hints that the model gets with each kind of tool error. */
export const toolErrorHints = {
  approval_denied: 'report_to_user',
  sandbox_violation: 'try_alternative',
  timeout: 'retry_later',
  invalid_input: 'check_input',
  invalid_output: 'try_alternative',
  execution_failed: 'try_alternative',
  unknown_tool: 'try_alternative',
  aborted: 'report_to_user',
  inbound_sanitization_blocked: 'try_alternative',
  dataflow_policy_blocked: 'report_to_user',
  capability_blocked: 'report_to_user',
  tool_unavailable: 'report_to_user',
  rate_limited: 'retry_later',
  depth_limit: 'try_alternative',
  spill_handle_invalid: 'check_input',
  outcome_unknown: 'report_to_user',
} as const;
export type ToolErrorKind = keyof typeof toolErrorHints;
export const toolErrorKind = z.enum(Object.keys(toolErrorHints) as [ToolErrorKind, ...ToolErrorKind[]]);

/**
 * An error of a tool as a model reads it: what happened, what to do, and last the kind. It always begins with our own words,
 * so that no text of a tool can pass for anything but text.
 */
export function toolErrorText(kind: ToolErrorKind, message: string, toolName: string): string {
  return `Error of tool ${toolName}: ${message}\nHint: ${toolErrorHints[kind]}\nKind: ${kind}`;
}
