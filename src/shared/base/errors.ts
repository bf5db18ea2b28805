import { z } from 'zod';
import { errorTable, type ErrorCode } from './run-error.ts';

export { asRunError, assertNever, errorTable, messageOf, RunError, thrownOf, type ErrorCode } from './run-error.ts';

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
  sandbox_unavailable: 'retry_later',
  rate_limited: 'retry_later',
  depth_limit: 'try_alternative',
  spill_handle_invalid: 'check_input',
  outcome_unknown: 'report_to_user',
  loop_guarded: 'try_alternative',
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

/** The message inside such a text, without its hint and kind. */
export function messageIn(content: string): string {
  const hint = content.lastIndexOf('\nHint: ');
  return content.slice(content.indexOf(': ') + 2, hint === -1 ? undefined : hint);
}
