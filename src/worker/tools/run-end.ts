import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';

/** What ends a run in the midst of a step: it fails, or `text` takes the place of its answer. */
export type RunEnd =
  | { readonly kind: 'failed'; readonly error: RunError }
  | { readonly kind: 'degraded'; readonly text: string };

/** What a denial does to the run, as its agent says. Undefined: the run goes on, and the caller gets the denial. */
export function endByDenial(denial: AgentDefinition['approvalDenial'], error: RunError): RunEnd | undefined {
  switch (denial) {
    case 'feed_back':
      return undefined;
    case 'degrade':
      return { kind: 'degraded', text: error.message };
    case 'fail':
      return { kind: 'failed', error };
    default:
      return assertNever(denial);
  }
}

/** The error of a run that ends because a call was denied. */
export function toolDenied(toolName: string, why: string, details: Readonly<Record<string, unknown>>): RunError {
  return new RunError('tool_denied', `the call of tool ${toolName} was denied: ${why}`, { details });
}
