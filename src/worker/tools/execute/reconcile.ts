import type { Batch, Ending } from './batch.ts';
import type { ReadyCall } from './prepare.ts';
import { finishResult } from './result.ts';
import type { Reconciliation } from '../tool.ts';
import { within } from '../../../shared/base/within.ts';

/** What is known about a call that may have taken effect. `not_done`: it surely has not. */
export type Found = Ending | { readonly kind: 'not_done' };

/** Asks the tool whether a call took effect. Whatever is not a clear answer in time is `unknown`. Never rejects. */
export async function reconcile(ready: ReadyCall, batch: Batch): Promise<Found> {
  const { call, tool, args } = ready;
  const { host, context, signal } = batch;
  const ask = tool.reconcile;
  if (!ask) return { kind: 'unknown' };
  const key = ready.key ?? context.keyFor(host.step, call.index);
  const settled = await within(tool.timeoutMs, (inner) => ask(key, args, inner), host.clock, signal);
  if (settled.kind === 'aborted') return settled;
  if (settled.kind !== 'value') return { kind: 'unknown' };
  const answer = settled.value as Reconciliation | null | undefined;
  if (answer?.outcome === 'done') return { kind: 'result', result: await finishResult(ready, answer.result, batch) };
  return { kind: answer?.outcome === 'not_done' ? 'not_done' : 'unknown' };
}
