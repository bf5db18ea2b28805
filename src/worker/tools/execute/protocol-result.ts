import { RunError } from '../../../shared/base/errors.ts';
import type { LeakFinding } from '../../../shared/contract/agent/lateral-leak.ts';
import type { CallResult } from '../../../shared/contract/journal/turn-state.ts';
import { guardProtocol, rejected } from '../../guards/leaks/protocol.ts';
import { errorResult } from '../tool-error.ts';
import type { Batch } from './batch.ts';

/**
 * The result of a call without the control characters that the agent does not want, and the finding where it had some. A result
 * that is rejected is not kept, and ends the run.
 */
export function protocolChecked(
  result: CallResult,
  toolName: string,
  { context, host, fatal }: Batch,
): { readonly result: CallResult; readonly leaks: readonly LeakFinding[] } {
  const { protocol } = context;
  if (!protocol || result.handoff !== undefined) return { result, leaks: [] };
  const { text, leak } = guardProtocol(host.redactor.secrets(result.content), protocol);
  if (!leak) return { result, leaks: [] };
  if (protocol !== 'reject') return { result: { ...result, content: text }, leaks: [leak] };
  const error = new RunError('protocol_injection_rejected', `the result of tool ${toolName} was refused: ${rejected}`);
  fatal.push({ kind: 'failed', error });
  return {
    result: errorResult(
      { kind: 'inbound_sanitization_blocked', message: `its result was refused: ${rejected}` },
      toolName,
    ),
    leaks: [leak],
  };
}
