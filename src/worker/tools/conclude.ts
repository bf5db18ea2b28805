import { assertNever, RunError, toolErrorHints } from '../../shared/errors.ts';
import type { EventBody } from '../../shared/event.ts';
import type { Redactor } from '../../shared/redact.ts';
import { callSummary, fingerprint } from './args.ts';
import type { Batch, Ending } from './batch.ts';
import type { CallResult, StepCall } from './call.ts';
import type { PreparedCall } from './prepare.ts';
import { outputSummary } from './result.ts';
import { errorResult, messageIn } from './tool-error.ts';

/** Tells that a call starts. Arguments of a call that is refused are not shown. */
export function announce(prepared: PreparedCall, { host }: Batch): void {
  const { id: toolCallId, name: toolName } = prepared.call;
  const args = prepared.kind === 'ready' ? prepared.shown : {};
  host.emit({ type: 'tool.execute.start', toolCallId, toolName, args, summary: callSummary(toolName, args) });
}

/** Tells how a call ended and hands its result to the journal. */
export function conclude(prepared: PreparedCall, ending: Ending, durationMs: number, batch: Batch): void {
  const { call } = prepared;
  switch (ending.kind) {
    case 'result':
      return settle(prepared, ending.result, durationMs, batch);
    case 'aborted':
      return batch.results.settle(call.index, endEvent(call, aborted(call), durationMs, batch.host.redactor));
    case 'unknown':
      return concludeUnknown(prepared, durationMs, batch);
    default:
      assertNever(ending);
  }
}

/** The event of a call's end. */
export function endEvent(call: StepCall, result: CallResult, durationMs: number, redactor: Redactor): EventBody {
  const { id: toolCallId, name: toolName } = call;
  const { content, errorKind: kind } = result;
  if (kind === undefined) {
    const summary = outputSummary(content, redactor);
    return { type: 'tool.execute.end', toolCallId, toolName, success: true, outputSummary: summary, durationMs };
  }
  const error = { kind, message: outputSummary(messageIn(content), redactor), hint: toolErrorHints[kind] };
  return { type: 'tool.execute.error', toolCallId, toolName, success: false, error, durationMs };
}

/** The answer to a call that is like one whose outcome is not known. */
export function refusedRepeat(name: string): CallResult {
  const message =
    'the outcome of an identical call is not known, so it must not be repeated before a person has approved it';
  return errorResult({ kind: 'outcome_unknown', message }, name);
}

function settle(prepared: PreparedCall, result: CallResult, durationMs: number, { host, results }: Batch): void {
  const { call } = prepared;
  const { content, errorKind, correctable } = result;
  // Also an error may quote what the tool has seen. A call that was refused has seen nothing.
  const sensitivity = prepared.kind === 'ready' ? prepared.tool.sensitivity : 'public';
  results.settle(call.index, endEvent(call, result, durationMs, host.redactor), {
    v: 1,
    t: 'called',
    step: host.step,
    index: call.index,
    toolCallId: call.id,
    toolName: call.name,
    // The journal is stored and the model is a stranger: neither may see a credential of this process.
    content: host.redactor.secrets(content),
    ...(sensitivity !== 'public' && { sensitivity }),
    ...(errorKind && { errorKind }),
    ...(correctable && { correctable }),
  });
}

function concludeUnknown(prepared: PreparedCall, durationMs: number, batch: Batch): void {
  const { call } = prepared;
  const { host, context } = batch;
  const { onUnknown } = prepared.kind === 'ready' ? prepared.tool : { onUnknown: 'report' as const };
  const key = context.keyFor(host.step, call.index);
  batch.unknown.add(fingerprint(call.name, call.args));
  host.emit({ type: 'tool.outcome_unknown', toolCallId: call.id, toolName: call.name, key });
  switch (onUnknown) {
    case 'report': {
      const message = 'it is not known whether this call took effect; do not repeat it, tell the user';
      return settle(prepared, errorResult({ kind: 'outcome_unknown', message }, call.name), durationMs, batch);
    }
    case 'suspend': {
      const requestedAt = new Date(host.clock.now()).toISOString();
      const args = prepared.kind === 'ready' ? prepared.shown : {};
      batch.pending.push({ kind: 'unknown_outcome', id: call.id, toolName: call.name, args, requestedAt });
      return batch.results.settle(call.index, null);
    }
    case 'fail':
      batch.fatal.push(
        new RunError('tool_outcome_unknown', `it is not known whether a call of tool ${call.name} took effect`),
      );
      return batch.results.settle(call.index, null);
    default:
      assertNever(onUnknown);
  }
}

function aborted(call: StepCall): CallResult {
  return errorResult({ kind: 'aborted', message: 'the call was stopped before it answered' }, call.name);
}
