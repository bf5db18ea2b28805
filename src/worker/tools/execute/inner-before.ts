import type { EventBody } from '../../../shared/contract/event.ts';
import type { InnerCall, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import type { InnerOutcome, Tool } from '../tool.ts';
import { fingerprint } from './args.ts';
import type { Batch } from './batch.ts';
import { keyOf, settle } from './inner-journal.ts';
import { note, noteRead, outcomeUnknown, publishResult } from './inner-outcome.ts';
import type { PreparedCall } from './prepare.ts';
import { mayHaveActed, reconcile } from './run-call.ts';
import { readsOf } from './script-reads.ts';
import type { Turnstile } from './turnstile.ts';

/** A call as an interrupted run of the script has left it in the journal. */
export interface LeftCall extends InnerCall {
  readonly number: number;
}

/** What an interrupted run of the script has left of such a call. Each is taken once, in the order of the calls. */
export function takeLeft(call: StepCall, left: Map<number, InnerCall>, batch: Batch): LeftCall | undefined {
  if (left.size === 0) return undefined;
  const print = fingerprint(call.name, call.args);
  const [number, inner] = [...left].find(([, one]) => one.fingerprint === print) ?? [];
  if (number === undefined || !inner) return undefined;
  left.delete(number);
  // At once: a call that the script makes beside this one must know that this one was made.
  readsOf(call.index, batch).send(call, batch);
  return { ...inner, number };
}

/**
 * What came of a call that an interrupted run of the script has made. Undefined: it has not taken effect, or may be repeated.
 * Another answer would have the model make the call a second time, under another key.
 */
export async function outcomeBefore(
  prepared: PreparedCall,
  left: LeftCall,
  pass: Turnstile,
  batch: Batch,
): Promise<InnerOutcome | undefined> {
  const { call } = prepared;
  if (left.outcome !== undefined) {
    const outcome = JSON.parse(left.outcome) as InnerOutcome;
    noteRead(call, left, outcome, batch);
    return outcome;
  }
  if (prepared.kind === 'refused')
    return mayHaveActed(prepared, batch) ? await settleUnknown(prepared, left, batch) : undefined;
  const { tool } = prepared;
  if (tool.effect !== 'once') return undefined;
  const keyed = { ...prepared, key: keyOf(call, left.number, batch) };
  const found = await pass(tool.executionMode === 'sequential', async () => await reconcile(keyed, batch));
  if (found.kind === 'not_done') return undefined;
  if (found.kind !== 'result') return await settleUnknown(keyed, left, batch);
  const events: EventBody[] = [];
  const outcome = publishResult(keyed, found.result, batch, (event) => void events.push(event));
  return await settle(call, left.number, { outcome, labels: note(keyed, found.result, batch), events }, batch);
}

/** Was the call permitted and begun, and is safe to be made again with its key? */
export function isRepeat({ effect }: Tool, left: LeftCall | undefined): left is LeftCall {
  return left !== undefined && effect === 'idempotent';
}

/** It is not known whether a call that was begun took effect. */
export async function settleUnknown(
  { call }: PreparedCall,
  { number }: LeftCall,
  batch: Batch,
  denied: readonly EventBody[] = [],
): Promise<InnerOutcome> {
  const events = [...denied];
  const outcome = outcomeUnknown(call, keyOf(call, number, batch), (event) => void events.push(event));
  return await settle(call, number, { outcome, events }, batch);
}
