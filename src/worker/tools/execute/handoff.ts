import { RunError } from '../../../shared/base/errors.ts';
import { maxDepth } from '../../../shared/contract/run.ts';
import type { Batch } from './batch.ts';
import type { StepCall } from '../../../shared/contract/journal/call.ts';
import { conclude } from './conclude.ts';
import type { PreparedCall, ReadyCall } from './prepare.ts';
import { errorResult } from '../tool-error.ts';

/** Does this call hand the conversation over? */
export function isHandoff({ tool }: ReadyCall): boolean {
  return tool.handoff !== undefined;
}

/** Why the handoffs of a step end the run: only one agent can go on, and it has to be there. */
export function handoffFault(
  prepared: readonly PreparedCall[],
  calls: readonly StepCall[],
  { context }: Batch,
): RunError | undefined {
  const targets = prepared.flatMap((call) => (call.kind === 'ready' && call.tool.handoff ? [call.tool.handoff] : []));
  const before = calls.flatMap(({ result }) => result?.handoff ?? []);
  if (targets.length + before.length > 1) {
    const named = [...before, ...targets].join(' and ');
    return new RunError('multiple_handoffs_in_step', `the model handed over to ${named} in one step`);
  }
  const missing = targets.find((id) => context.hasAgent?.(id) !== true);
  if (missing === undefined) return undefined;
  return new RunError('handoff_target_not_found', `there is no agent ${missing} to hand over to`);
}

/** The model is told who goes on; the run does it when all calls of the step have their results. */
export function handOver(ready: ReadyCall, batch: Batch): void {
  const { tool, call } = ready;
  const { depth = 0 } = batch.context;
  const message = `agents may hand over to each other and ask each other at most ${maxDepth} deep; go on yourself`;
  const result =
    depth >= maxDepth
      ? errorResult({ kind: 'depth_limit', message }, call.name)
      : { content: `The conversation goes on with ${tool.handoff ?? ''}.`, handoff: tool.handoff };
  conclude(ready, { kind: 'result', result }, 0, batch);
}
