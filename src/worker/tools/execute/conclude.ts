import { askedSchema } from './asked-schema.ts';
import { assertNever, messageIn, RunError, toolErrorHints, type ErrorCode } from '../../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../../shared/contract/event.ts';
import type { JournalEntryOf } from '../../../shared/contract/journal/journal.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import { callSummary, fingerprint } from './args.ts';
import type { Batch, CallEnding } from './batch.ts';
import type { Ask, CallResult } from '../../../shared/contract/journal/turn-state.ts';
import type { PreparedCall } from './prepare.ts';
import { protocolChecked } from './protocol-result.ts';
import { outputSummary } from './result.ts';
import type { Tool } from '../tool.ts';
import { leakEvent } from '../leak-event.ts';
import { errorResult } from '../tool-error.ts';

/**
 * Emits that a call starts. Arguments of a call that is not made are not shown: it was wrong, or `result` shows that a rule
 * or a person has denied it.
 */
export function announce(prepared: PreparedCall, { host }: Pick<Batch, 'host'>, result?: CallResult): void {
  host.emit(startEvent(prepared, host, result));
}

/** The event of a call's start. */
export function startEvent(
  prepared: PreparedCall,
  { attemptNumber }: Pick<Batch['host'], 'attemptNumber'>,
  result?: CallResult,
): EventBody {
  const { id: toolCallId, name: toolName } = prepared.call;
  const args = prepared.kind === 'ready' && result?.errorKind === undefined ? prepared.shown : {};
  const { parentToolCallId } = prepared;
  const summary = callSummary(toolName, args);
  return { type: 'tool.execute.start', toolCallId, toolName, args, summary, attemptNumber, parentToolCallId };
}

/** Publishes how a call ended and hands its result to the journal, together with the events `before` it. */
export function conclude(
  prepared: PreparedCall,
  ending: CallEnding,
  durationMs: number,
  batch: Batch,
  before: readonly EventBody[] = [],
): void {
  const { call } = prepared;
  switch (ending.kind) {
    case 'result':
      return settle(prepared, ending.result, durationMs, batch, before);
    case 'aborted': {
      // Where another worker continues the run, the call has not ended, and the ends that come after it wait on.
      if (!endsRun(batch.signal.reason)) return;
      const stopped = errorResult({ kind: 'aborted', message: 'the call was stopped before it answered' }, call.name);
      return batch.results.settle(call.index, endEvent(prepared, stopped, durationMs, batch.host.redactor));
    }
    case 'unknown':
      return concludeUnknown(prepared, durationMs, batch);
    default:
      assertNever(ending);
  }
}

/** The event of a call's end. */
export function endEvent(
  prepared: Pick<PreparedCall, 'call' | 'parentToolCallId'>,
  result: CallResult,
  durationMs: number,
  redactor: Redactor,
): EventBody {
  const { id: toolCallId, name: toolName } = prepared.call;
  const { content, errorKind: kind, handle, findings = [] } = result;
  const flagged = findings.length > 0 ? [...findings] : undefined;
  const about = { toolCallId, toolName, durationMs, flagged, parentToolCallId: prepared.parentToolCallId };
  if (kind === undefined) {
    const summary = outputSummary(content, redactor);
    const end = { type: 'tool.execute.end', success: true, outputSummary: summary } as const;
    return { ...end, ...about, resultHandle: handle };
  }
  const error = { kind, message: outputSummary(messageIn(content), redactor), hint: toolErrorHints[kind] };
  return { type: 'tool.execute.error', success: false, error, ...about };
}

/** The answer to a call that is like one whose outcome is not known. */
export function refusedRepeat(name: string): CallResult {
  const message =
    'the outcome of an identical call is not known, so it must not be repeated before a person has approved it';
  return errorResult({ kind: 'outcome_unknown', message }, name);
}

/** For the model and for scripts. */
export const unknownOutcome = 'it is not known whether this call took effect; do not repeat it, report it to the user';

/** The answer to a call whose outcome is not known. */
export function unknownResult(name: string): CallResult {
  return errorResult({ kind: 'outcome_unknown', message: unknownOutcome }, name);
}

/** With these a worker releases a run that has not ended. */
const releasing: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['lock_lost', 'worker_lost', 'queue_unavailable']);

/** Does the run end because of this? Then no worker comes back to calls that it stopped. */
export function endsRun(reason: unknown): boolean {
  return !(reason instanceof RunError && releasing.has(reason.code));
}

function settle(
  prepared: PreparedCall,
  given: CallResult,
  durationMs: number,
  batch: Batch,
  before: readonly EventBody[],
): void {
  const { call } = prepared;
  const { host, results, denied } = batch;
  const { result, leaks } = protocolChecked(given, call.name, batch);
  const { content, errorKind, correctable, trust, sanitized, flow, promoted, handoff } = result;
  // Also an error may quote what the tool has seen. A call that was refused has seen nothing.
  const seen = prepared.kind === 'ready' ? prepared.tool.sensitivity : 'public';
  const sensitivity = result.sensitivity ?? seen;
  const entry: JournalEntryOf<'tool_result'> = {
    v: 1,
    t: 'tool_result',
    step: host.step,
    index: call.index,
    toolCallId: call.id,
    toolName: call.name,
    // The journal is stored and the model is a stranger: neither may see a credential of this process.
    content: host.redactor.secrets(content),
    sensitivity: sensitivity === 'public' ? undefined : sensitivity,
    errorKind,
    correctable: correctable ? true : undefined,
    trust: trust === 'user-defined' ? undefined : trust,
    sanitized,
    flow,
    denied: denied.has(call.index) ? [...(denied.get(call.index) ?? [])] : undefined,
    promoted: promoted && promoted.length > 0 ? [...promoted] : undefined,
    handoff,
  };
  // Nothing was executed for a handoff: no start of it was published either.
  const end = handoff === undefined ? endEvent(prepared, result, durationMs, host.redactor) : null;
  results.settle(call.index, end, entry, [...before, ...leaks.map(leakEvent)]);
}

function concludeUnknown(prepared: PreparedCall, durationMs: number, batch: Batch): void {
  const { call } = prepared;
  const { host, context } = batch;
  const { onUnknown } = prepared.kind === 'ready' ? prepared.tool : { onUnknown: 'report' as const };
  const key = context.keyFor(host.step, call.index);
  batch.unknown.add(fingerprint(call.name, call.args));
  const event: EventBody = { type: 'tool.outcome_unknown', toolCallId: call.id, toolName: call.name, key };
  switch (onUnknown) {
    case 'report':
      return settle(prepared, unknownResult(call.name), durationMs, batch, [event]);
    case 'suspend': {
      batch.onWait.push(event);
      // Where no person can be asked the operator has to decide: a guess could repeat the effect.
      const now = host.clock.now();
      const id = batch.newAskId({ ...call, id: `${call.id}:outcome` });
      const ttlMs = context.people?.ttlMs ?? longestWaitMs;
      const ask: Ask = { id, kind: 'unknown_outcome', index: call.index, requestedAtMs: now, expiresAtMs: now + ttlMs };
      batch.asks.push({ item: outcomeItem(prepared, ask), ask, isNew: true });
      return batch.results.settle(call.index, null);
    }
    case 'fail': {
      host.emit(event);
      const why = `it is not known whether a call of tool ${call.name} took effect`;
      batch.fatal.push({ kind: 'failed', error: new RunError('tool_outcome_unknown', why) });
      return batch.results.settle(call.index, null);
    }
    default:
      assertNever(onUnknown);
  }
}

const longestWaitMs = 86_400_000;

/** What people are asked about a call whose outcome is not known. */
export function outcomeItem(prepared: PreparedCall, ask: Ask): PendingItem {
  return {
    kind: 'unknown_outcome',
    id: ask.id,
    toolName: prepared.call.name,
    args: prepared.kind === 'ready' ? prepared.shown : {},
    reason: 'it is not known whether this call took effect',
    argsSchema: prepared.kind === 'ready' ? askedSchema(prepared.tool) : undefined,
    requestedAt: new Date(ask.requestedAtMs).toISOString(),
    expiresAt: new Date(ask.expiresAtMs).toISOString(),
  };
}

/** What people read about a tool. */
export function classificationOf({
  trust,
  sideEffectClass,
  sensitivity,
  sandboxPolicy,
}: Tool): NonNullable<PendingItem['classification']> {
  return { trust, sideEffectClass, sensitivity, sandboxPolicy };
}
