import { messageIn } from '../../../shared/base/errors.ts';
import { jsonOr, jsonText } from '../../../shared/base/json.ts';
import { isUntrusted } from '../../../shared/contract/agent/trust.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntryOf } from '../../../shared/contract/journal/journal.ts';
import type { CallResult, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import type { InnerOutcome } from '../tool.ts';
import type { Batch } from './batch.ts';
import { announce, endEvent, unknownOutcome } from './conclude.ts';
import { flowNamesOf } from './flow-trail.ts';
import type { PreparedCall, ReadyCall } from './prepare.ts';
import { readsOf } from './script-reads.ts';

/** Publishes how a call ended, or has that wait for its entry. */
export type Publish = (event: EventBody) => void;

/** What a script gets, and the labels of it. Without any it is a text of ours. */
export interface Ended {
  readonly outcome: InnerOutcome;
  readonly labels?: Labels;
}
type Labels = Pick<JournalEntryOf<'inner_tool_result'>, 'trust' | 'sensitivity' | 'flow'>;

/** It is not known whether a call of this key took effect. */
export function outcomeUnknown({ id, name }: StepCall, key: string, publish: Publish): InnerOutcome {
  publish({ type: 'tool.outcome_unknown', toolCallId: id, toolName: name, key });
  return failure('outcome_unknown', unknownOutcome);
}

/** The script has read this result. Answers its labels for the journal. */
export function note(ready: ReadyCall, result: CallResult, batch: Batch): Labels {
  const { trust = ready.tool.trust, sensitivity = ready.tool.sensitivity, flow } = result;
  const labels = { trust, sensitivity, flow };
  noteRead(ready.call, labels, outcomeOf(result, batch), batch);
  return labels;
}

/** The script has read this outcome. What has no labels is the tool's own, and a stranger's where the tool is gone. */
export function noteRead(call: StepCall, labels: Labels, outcome: InnerOutcome, batch: Batch): void {
  const tool = batch.preparation.registry.meant(call);
  const { trust = tool?.trust ?? 'external', sensitivity = tool?.sensitivity ?? 'public', flow } = labels;
  const source = { name: (tool && flowNamesOf(tool)[0]) ?? call.name, trust };
  const message = outcome.ok ? textOf(outcome.value) : outcome.message;
  // An error of a trusted tool vouches for nothing: it may repeat what the tool was called with.
  const text = outcome.ok || flow || isUntrusted(trust) ? message : '';
  readsOf(call.index, batch).read({ text, args: call.args, source, sensitivity, flow }, batch);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (jsonText(value) ?? '');
}

export function publishResult(
  prepared: PreparedCall,
  result: CallResult,
  batch: Batch,
  publish: Publish,
): InnerOutcome {
  announce(prepared, batch, result);
  publish(endEvent(prepared, result, 0, batch.host.redactor));
  return outcomeOf(result, batch);
}

export function outcomeOf({ content, errorKind }: CallResult, { host }: Batch): InnerOutcome {
  const text = host.redactor.secrets(content);
  if (errorKind) return failure(errorKind, messageIn(text));
  return { ok: true, value: jsonOr(text, text) };
}

export function failure(kind: Extract<InnerOutcome, { ok: false }>['kind'], message: string): InnerOutcome {
  return { ok: false, kind, message };
}
