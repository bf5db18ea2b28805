import type { Batch } from './batch.ts';
import { conclude, outcomeItem, unknownResult } from './conclude.ts';
import { inLanes } from '../../../shared/base/in-lanes.ts';
import type { PreparedCall } from './prepare.ts';
import { reconcile } from './run-call.ts';

/**
 * Settles what became of the `once` calls that another worker left behind, as far as it can be known. Answers the calls
 * that shall run.
 */
export async function recover(prepared: readonly PreparedCall[], batch: Batch): Promise<readonly PreparedCall[]> {
  const settled = new Set<PreparedCall>();
  await inLanes(prepared.filter(isInDoubt), batch.host.maxParallel, async (call) => {
    if (call.call.ask?.kind === 'unknown_outcome') {
      if (!settleByPerson(call, batch)) return;
      settled.add(call);
      return;
    }
    const found = call.kind === 'ready' ? await reconcile(call, batch) : ({ kind: 'unknown' } as const);
    if (found.kind === 'not_done') return;
    settled.add(call);
    conclude(call, found, 0, batch);
  });
  return prepared.filter((call) => !settled.has(call));
}

/** Intents exist for known tools only: where the tool is gone since then, no worker can find out what its call did. */
function isInDoubt(prepared: PreparedCall): boolean {
  if (prepared.call.status !== 'interrupted') return false;
  return prepared.kind === 'ready' ? prepared.tool.effect === 'once' : prepared.result.errorKind === 'unknown_tool';
}

/** What a person decided about a call whose outcome is not known. False: it shall run again. */
function settleByPerson(prepared: PreparedCall, batch: Batch): boolean {
  const { call } = prepared;
  const { ask, decision } = call;
  if (!ask) return false;
  const expired = ask.expiresAtMs <= batch.host.clock.now();
  if (decision?.kind === 'answer') {
    conclude(prepared, { kind: 'result', result: { content: decision.answer } }, 0, batch);
    return true;
  }
  if (decision?.granted) return false;
  if (decision || expired) {
    conclude(prepared, { kind: 'result', result: unknownResult(call.name) }, 0, batch);
    return true;
  }
  batch.asks.push({ item: outcomeItem(prepared, ask), ask, isNew: false });
  batch.results.settle(call.index, null);
  return true;
}
