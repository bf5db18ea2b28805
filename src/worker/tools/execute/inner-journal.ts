import { jsonText } from '../../../shared/base/json.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import type { StepCall } from '../../../shared/contract/journal/turn-state.ts';
import type { InnerOutcome } from '../tool.ts';
import { fingerprint } from './args.ts';
import type { Batch } from './batch.ts';
import { endsRun } from './conclude.ts';
import type { Ended } from './inner-outcome.ts';

/** Where a call of a script is in the journal. */
export function placeOf({ index }: StepCall, number: number, { host }: Batch) {
  return { v: 1, step: host.step, index, number } as const;
}

/** Its idempotency key: of its script's call, and its number there. */
export function keyOf({ index }: StepCall, number: number, { context, host }: Batch): string {
  return `${context.keyFor(host.step, index)}.${number}`;
}

export function intentOf(call: StepCall, number: number, batch: Batch): JournalEntry {
  const print = fingerprint(call.name, call.args);
  return { ...placeOf(call, number, batch), t: 'inner_tool_intent', fingerprint: print };
}

/** Records what came of a call whose intent is in the journal. */
export async function settle(
  call: StepCall,
  number: number,
  { outcome, labels, events }: Ended & { readonly events: readonly EventBody[] },
  batch: Batch,
): Promise<InnerOutcome> {
  const { signal, host } = batch;
  const unknown = !outcome.ok && outcome.kind === 'outcome_unknown' ? true : undefined;
  // At once: the script must not make it again.
  if (unknown) batch.unknown.add(fingerprint(call.name, call.args));
  const entry: JournalEntry = {
    ...placeOf(call, number, batch),
    t: 'inner_tool_result',
    outcome: jsonText(outcome),
    unknown,
    ...labels,
  };
  if (!signal.aborted) await record([entry], batch, events);
  else if (endsRun(signal.reason)) for (const event of events) host.emit(event);
  return outcome;
}

/** What cannot be recorded is no matter between the script and its call: the whole step is lost. */
export async function record(
  entries: readonly JournalEntry[],
  { host, results }: Batch,
  events: readonly EventBody[] = [],
): Promise<void> {
  try {
    await host.record(entries, events);
  } catch (error) {
    results.lose(error);
    throw error;
  }
}
