import type { ChildEnd } from '../../../shared/contract/control.ts';
import type { PendingItem } from '../../../shared/contract/event.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { maxDepth, maxInputBytes } from '../../../shared/contract/run.ts';
import type { Batch } from './batch.ts';
import type { PlannedChild } from '../tool.ts';
import type { CallResult, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import { conclude } from './conclude.ts';
import type { ReadyCall, PreparedCall } from './prepare.ts';
import { finishFault, finishResult } from './result.ts';
import { ToolError, errorResult } from '../tool-error.ts';
import { RunError } from '../../../shared/base/errors.ts';

/** A conversation that goes along is no file. */
const maxHistoryBytes = 128 * 1024;

/** Is this call one that another run does, or shall do? */
export function isDelegated({ tool }: ReadyCall): boolean {
  return tool.delegate !== undefined;
}

/**
 * The result of a call that is one too many for its step, before a person is asked about it. The first calls of the step
 * count, whatever becomes of them, so that every worker refuses the same ones.
 */
export function surplus(ready: ReadyCall, batch: Batch): CallResult | undefined {
  const { calls, host, preparation } = batch;
  if (!isDelegated(ready) || ready.call.child) return undefined;
  const isBefore = ({ index, name }: StepCall) =>
    index < ready.call.index && preparation.registry.find(name)?.delegate !== undefined;
  if (calls.filter(isBefore).length < host.maxDelegated) return undefined;
  const why = `one step may ask at most ${host.maxDelegated} agents, and this call was not made; ask again in your next step`;
  // The model may repair it: no policy about failures is meant.
  return { ...finishFault(ready, new ToolError('rate_limited', why), batch), correctable: true };
}

/**
 * Has another run do the call, or finishes it with that run's answer. Until then the step waits. Never rejects.
 */
export async function delegate(ready: ReadyCall, batch: Batch): Promise<void> {
  const { call } = ready;
  const { child } = call;
  if (child?.end) return await takeAnswer(ready, child.end, child.requestedAtMs, batch);
  try {
    batch.children.push(plan(ready, batch));
    batch.results.settle(call.index, null);
  } catch (thrown) {
    conclude(ready, { kind: 'result', result: finishFault(ready, thrown, batch) }, 0, batch);
  }
}

/** The same on every worker that comes to this call: its run is created once. */
function plan({ call, tool, args, shown }: ReadyCall, { context, host }: Batch): PlannedChild {
  const { childIdFor, depth = 0 } = context;
  const spec = tool.delegate?.(args, { messages: host.messages });
  if (!spec || !childIdFor) throw new ToolError('capability_blocked', 'no other agent can be asked here');
  if (depth >= maxDepth)
    throw new ToolError('depth_limit', `agents may work for each other at most ${maxDepth} deep; answer yourself`);
  if (Buffer.byteLength(spec.input) > maxInputBytes)
    throw new ToolError('invalid_input', `the message to ${spec.agentId} is over ${maxInputBytes} bytes`);
  const tooLong = `the conversation that goes to ${spec.agentId} is over ${maxHistoryBytes} bytes`;
  if (spec.history && Buffer.byteLength(jsonText(spec.history)) > maxHistoryBytes)
    throw new ToolError('invalid_input', tooLong);
  const id = childIdFor(host.step, call.index);
  const requestedAtMs = call.child?.requestedAtMs ?? host.clock.now();
  const item: PendingItem = {
    kind: 'child',
    id,
    toolName: call.name,
    args: { ...shown, agentId: spec.agentId },
    requestedAt: new Date(requestedAtMs).toISOString(),
  };
  return { id, index: call.index, spec, item, requestedAtMs };
}

/** Only an answer is one: a run that did not come to its end is a failed call, whose result names the reason. */
async function takeAnswer(ready: ReadyCall, end: ChildEnd, requestedAtMs: number, batch: Batch): Promise<void> {
  const durationMs = Math.max(0, Math.round(Date.parse(end.at) - requestedAtMs));
  const hasAnswered = end.status === 'completed' || end.status === 'degraded';
  const result = hasAnswered
    ? await finishResult(ready, end.structured ?? end.text, batch)
    : finishFault(ready, new ToolError('execution_failed', whyNot(end)), batch);
  conclude(ready, { kind: 'result', result }, durationMs, batch);
}

function whyNot({ status, error }: ChildEnd): string {
  if (status === 'cancelled') return 'the other agent was stopped before it answered';
  return `the other agent ${status === 'blocked' ? 'could not begin' : 'failed'}: ${error?.message ?? 'it gave no reason'}`;
}

/** Does this call hand the conversation to another agent? */
export function isHandoff({ tool }: ReadyCall): boolean {
  return tool.handoff !== undefined;
}

/** Does this call hand the conversation over, as far as depth allows? Then no tool works: its event is `handoff`. */
export function handsOver(ready: PreparedCall, { context }: Pick<Batch, 'context'>): boolean {
  return ready.kind === 'ready' && isHandoff(ready) && (context.depth ?? 0) < maxDepth;
}

/** Why the handoffs of a step end the run: only one agent can go on, and it has to be there. */
export function handoffFault(prepared: readonly PreparedCall[], { calls, context }: Batch): RunError | undefined {
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

/** The result names the next agent; the run hands over when all calls of the step have their results. */
export function handedOff(ready: ReadyCall, batch: Batch): void {
  const { tool, call } = ready;
  const { depth = 0 } = batch.context;
  const message = `agents may hand over to each other and ask each other at most ${maxDepth} deep; go on yourself`;
  const result =
    depth >= maxDepth
      ? errorResult({ kind: 'depth_limit', message }, call.name)
      : { content: `The conversation goes on with ${tool.handoff ?? ''}.`, handoff: tool.handoff };
  conclude(ready, { kind: 'result', result }, 0, batch);
}
