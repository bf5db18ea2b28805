import type { ChildEnd } from '../../../shared/contract/control.ts';
import type { PendingItem } from '../../../shared/contract/event.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { maxDepth, maxInputBytes } from '../../../shared/contract/run.ts';
import type { Batch } from './batch.ts';
import type { ChildSpec, PlannedChild, Tool } from '../tool.ts';
import { lessTrusted } from '../../../shared/contract/agent/trust.ts';
import { clean, labelOfEnd, leastTrusted } from '../../../shared/contract/flow-label.ts';
import { strictestOf, type FlowLabel } from '../../../shared/contract/message.ts';
import { labelsOfRun, writtenIn, type RunLabels } from '../../guards/flow/run-labels.ts';
import type { CallResult, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import { conclude } from './conclude.ts';
import { received, sent } from './crossings.ts';
import type { ReadyCall, PreparedCall } from './prepare.ts';
import { finishFault, finishResult } from './result.ts';
import { leakEvent } from '../leak-event.ts';
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
function plan({ call, tool, args, shown }: ReadyCall, batch: Batch): PlannedChild {
  const { context, host } = batch;
  const { childIdFor, depth = 0 } = context;
  const asked = tool.delegate?.(args, { messages: host.messages });
  if (!asked || !childIdFor) throw new ToolError('capability_blocked', 'no other agent can be asked here');
  if (depth >= maxDepth)
    throw new ToolError('depth_limit', `agents may work for each other at most ${maxDepth} deep; answer yourself`);
  if (Buffer.byteLength(asked.input) > maxInputBytes)
    throw new ToolError('invalid_input', `the message to ${asked.agentId} is over ${maxInputBytes} bytes`);
  const tooLong = `the conversation that goes to ${asked.agentId} is over ${maxHistoryBytes} bytes`;
  if (asked.history && Buffer.byteLength(jsonText(asked.history)) > maxHistoryBytes)
    throw new ToolError('invalid_input', tooLong);
  const spec = labelled(asked, labelsOfRun(host.past.messages(0), host.past.trusted));
  const id = childIdFor(host.step, call.index);
  const requestedAtMs = call.child?.requestedAtMs ?? host.clock.now();
  const item: PendingItem = {
    kind: 'child',
    id,
    toolName: call.name,
    args: { ...shown, agentId: spec.agentId },
    requestedAt: new Date(requestedAtMs).toISOString(),
  };
  return { id, index: call.index, spec: sent(spec, call.child === undefined, batch), item, requestedAtMs };
}

/** With what this run had read when its model wrote the input, and what goes along was said. */
function labelled(spec: ChildSpec, labels: RunLabels): ChildSpec {
  const history = spec.history && labels.onto(spec.history);
  return { ...spec, history, flow: labels.of(spec.input, writtenIn(history ?? [])) ?? clean };
}

/** Only an answer is one: a run that did not come to its end is a failed call, whose result names the reason. */
async function takeAnswer(asked: ReadyCall, end: ChildEnd, requestedAtMs: number, batch: Batch): Promise<void> {
  const flow = labelOfEnd(end);
  const ready = { ...asked, tool: trustedLike(asked.tool, end.flow) };
  const durationMs = Math.max(0, Math.round(Date.parse(end.at) - requestedAtMs));
  const hasAnswered = end.status === 'completed' || end.status === 'degraded';
  const { value, leaks } = received(hasAnswered ? (end.structured ?? answerOf(end)) : whyNot(end), end, batch);
  const result = hasAnswered
    ? await finishResult(ready, value, batch)
    : finishFault(ready, new ToolError('execution_failed', String(value)), batch);
  const isOwn = flow.sources.length === 0 && flow.sensitivity === undefined;
  conclude(
    ready,
    { kind: 'result', result: isOwn ? result : { ...result, flow } },
    durationMs,
    batch,
    leaks.map(leakEvent),
  );
}

/** The tool as far as its answer is trusted: no further than what the run had read that gives it. */
function trustedLike(tool: Tool, flow: FlowLabel = clean): Tool {
  const trust = lessTrusted(tool.trust, leastTrusted(flow));
  const sensitivity = strictestOf([tool.sensitivity, flow.sensitivity]) ?? 'public';
  return trust === tool.trust && sensitivity === tool.sensitivity ? tool : { ...tool, trust, sensitivity };
}

/** What the other agent said, and that it could not say all. */
function answerOf({ text, incomplete }: ChildEnd): string {
  return incomplete ? `${text}\n\n(The other agent reached its limit ${incomplete.reason}: this is incomplete.)` : text;
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
