import { toolErrorHints, type ToolErrorKind, toolErrorText, assertNever, RunError } from '../../shared/base/errors.ts';
import type { CallResult } from '../../shared/contract/journal/turn-state.ts';
import { clip, cleanText } from '../../shared/base/text.ts';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';

const maxMessageChars = 2_000;

/**
 * Thrown by a tool to name the kind of its failure; any other thrown value counts as `execution_failed`. A
 * `rate_limited` tool that is `read` or `idempotent` is tried again up to three times before the failure shows.
 *
 * @example
 * if (response.status === 429) throw new ToolError('rate_limited', 'the weather service is busy')
 */
export class ToolError extends Error {
  readonly kind: ToolErrorKind;

  constructor(kind: ToolErrorKind, message: string, options: { cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ToolError';
    this.kind = kind;
  }
}

/** How a call failed, before it is put into words for the model. */
export interface ToolFault {
  readonly kind: ToolErrorKind;
  readonly message: string;
}

/** The fault that a thrown value stands for. Never throws, whatever was thrown. */
export function faultOf(thrown: unknown): ToolFault {
  const kind = thrown instanceof ToolError && thrown.kind in toolErrorHints ? thrown.kind : 'execution_failed';
  return { kind, message: cleanText(clip(messageOf(thrown), maxMessageChars)) };
}

function messageOf(thrown: unknown): string {
  try {
    if (typeof thrown === 'string') return thrown || 'no reason was given';
    const message: unknown = (thrown as { message?: unknown } | null | undefined)?.message;
    return typeof message === 'string' && message !== '' ? message : 'no reason was given';
  } catch {
    return 'no reason could be read';
  }
}

export function errorResult(fault: ToolFault, toolName: string, correctable = false): CallResult {
  const { kind } = fault;
  const message = clip(fault.message, maxMessageChars);
  return {
    content: toolErrorText(kind, message, clip(toolName, 64)),
    errorKind: kind,
    correctable: correctable || undefined,
  };
}

/** What ends a run in the midst of a step: it fails, or `text` takes the place of its answer. */
export type RunEnd =
  | { readonly kind: 'failed'; readonly error: RunError }
  | { readonly kind: 'degraded'; readonly text: string };

/** What a denial does to the run, by its agent's setting. Undefined: the run continues, and the caller gets the denial. */
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

export function toolDenied(toolName: string, why: string, details: Readonly<Record<string, unknown>>): RunError {
  return new RunError('tool_denied', `the call of tool ${toolName} was denied: ${why}`, { details });
}
