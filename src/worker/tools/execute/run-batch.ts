import type { EventBody, PendingItem, SuspendReason } from '../../../shared/contract/event.ts';
import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import { fingerprint } from './args.ts';
import type { Batch, Permission } from './batch.ts';
import type { PlannedChild } from '../tool.ts';
import type { Ask } from '../../../shared/contract/journal/turn-state.ts';
import { conclude, endsRun, refusedRepeat, startEvent } from './conclude.ts';
import { noteDenial } from './crossings.ts';
import { delegate, isDelegated, surplus, handedOff, handoffFault, handsOver, isHandoff } from './delegate.ts';
import { runInner } from './inner.ts';
import { permit } from './ask-people.ts';
import type { PreparedCall, ReadyCall } from './prepare.ts';
import { recover, runCall } from './run-call.ts';
import type { RunEnd } from '../tool-error.ts';
import { inLanes } from '../../../shared/base/collections.ts';

/**
 * How the calls of a step ended. `done`: each has a recorded result. `aborted`: the signal stopped them, what was
 * finished is recorded. `suspended`: some wait for people. Otherwise a denial or an unknown outcome ends the run.
 */
export type BatchEnd =
  | { readonly kind: 'done' }
  | { readonly kind: 'aborted' }
  | {
      readonly kind: 'suspended';
      readonly reason: SuspendReason;
      readonly pending: readonly PendingItem[];
      readonly asks: readonly Ask[];
      /** Runs that do calls of the step, to be started once the wait is durable. */
      readonly children: readonly PlannedChild[];
      /** Published in the same write as the wait: no person is asked, and no run begins, before that. */
      readonly events: readonly EventBody[];
      /** When the first of them expires, or it is time to look after the runs. */
      readonly resumeAtMs: number;
    }
  | RunEnd;

export async function runStepCalls(prepared: readonly PreparedCall[], batch: Batch): Promise<BatchEnd> {
  const { host } = batch;
  const { toRun: admitted, concluded } = await admit(await recover(prepared, batch), batch);
  const fault = handoffFault(admitted, batch);
  if (fault) batch.fatal.push({ kind: 'failed', error: fault });
  if (batch.fatal.length === 0 && !batch.signal.aborted) {
    const starting = admitted.filter(
      (call) => !handsOver(call, batch) && (!isDelegated(call) || needsIntent(call, batch)),
    );
    const starts = [...starting.map((call) => ({ call, result: undefined })), ...concluded];
    const inCallOrder = starts.toSorted((a, b) => a.call.call.index - b.call.call.index);
    const events = inCallOrder.map(({ call, result }) => startEvent(call, host, result));
    const begun = await begin(admitted, events, batch);
    for (const { call, result, denied } of concluded) conclude(call, { kind: 'result', result }, 0, batch, denied);
    await Promise.all(admitted.filter(isDelegated).map((call) => delegate(call, batch)));
    await dispatch(begun, batch);
  }
  await batch.results.finish();
  if (batch.signal.aborted || batch.fatal[0]) {
    const endsHere = batch.fatal[0] !== undefined || endsRun(batch.signal.reason);
    if (endsHere) for (const event of [...batch.grants, ...batch.onWait, ...batch.results.takeDue()]) host.emit(event);
    return batch.signal.aborted ? { kind: 'aborted' } : (batch.fatal[0] as RunEnd);
  }
  if (batch.asks.length + batch.children.length === 0) return { kind: 'done' };
  const requests = batch.asks.flatMap(({ item, isNew, found }) =>
    isNew ? [...requestEvents(item), ...(found ? [found] : [])] : [],
  );
  const asks = batch.asks.map(({ ask }) => ask);
  const now = host.clock.now();
  const times = asks.map(({ expiresAtMs }) => expiresAtMs);
  if (batch.children.length > 0) times.push(now + lookAfterMs);
  return {
    kind: 'suspended',
    reason: reasonOf(asks),
    pending: [...batch.asks, ...batch.children].map(({ item }) => item),
    asks,
    children: batch.children,
    events: [...batch.results.takeDue(), ...batch.onWait, ...requests],
    resumeAtMs: Math.max(now, Math.min(...times)),
  };
}

/** After this the runs that do calls are started again, which changes nothing unless one of them, or its end, got lost. */
const lookAfterMs = 60_000;

type Concluded = Pick<Extract<Permission, { readonly kind: 'concluded' }>, 'call' | 'result' | 'denied'>;

/** Asks rules and people about each call. Calls that wait neither run nor publish a start. */
async function admit(prepared: readonly PreparedCall[], batch: Batch) {
  const toRun: ReadyCall[] = [];
  const concluded: Concluded[] = [];
  for (const call of prepared) {
    const result = call.kind === 'refused' ? call.result : surplus(call, batch);
    if (result) concluded.push({ call, result });
    if (result || call.kind === 'refused') continue;
    // It was permitted when its run began.
    const permission = call.call.child ? ({ kind: 'go', call } as const) : await permit(call, batch);
    if (permission.kind === 'go') {
      toRun.push(permission.call);
      if ('granted' in permission && permission.granted) batch.grants.push(permission.granted);
      if ('found' in permission && permission.found) batch.found.set(call.call.index, permission.found);
    } else if (permission.kind === 'concluded') concluded.push(permission);
    else if (permission.kind === 'ends_run') batch.fatal.push(permission.end);
    else {
      batch.asks.push(permission);
      batch.results.settle(call.call.index, null);
    }
  }
  return { toRun, concluded };
}

function reasonOf(asks: readonly Ask[]): SuspendReason {
  const kinds = new Set(asks.map(({ kind }) => kind));
  if (kinds.size === 0) return 'child';
  if (kinds.has('approval')) return 'approval';
  return kinds.has('user_input') ? 'user_input' : 'unknown_outcome';
}

function requestEvents(item: PendingItem): EventBody[] {
  const { kind, id: toolCallId, toolName = '', args = {}, mode = 'approval', classification } = item;
  if (kind !== 'approval' || !classification) return [];
  const { reason, requestedAt, expiresAt } = item;
  const about = { toolCallId, toolName, args, reason, mode, requestedAt, expiresAt, classification };
  return [{ type: 'tool.approval.requested', ...about }];
}

/**
 * The intent of every call with a side effect is durable before the first of them starts, and that of one which people have
 * granted, in which the data-flow policy has found something, or which another run does: what is published of it here is
 * published once. Answers the calls that run here, as begun.
 */
async function begin(admitted: readonly ReadyCall[], starts: readonly EventBody[], batch: Batch) {
  const { host, grants, found } = batch;
  const toRun = admitted.filter((call) => !isDelegated(call));
  const indexes = admitted.filter((call) => needsIntent(call, batch)).map(({ call }) => call.index);
  if (indexes.length === 0) {
    for (const event of starts) host.emit(event);
    return toRun;
  }
  const startedAtMs = host.clock.now();
  const at = new Date(startedAtMs).toISOString();
  const entry: JournalEntry = { v: 1, t: 'tool_intent', step: host.step, indexes, at };
  await host.record([entry], [...grants.splice(0), ...found.values(), ...starts]);
  return toRun.map((ready) => (needsIntent(ready, batch) ? { ...ready, call: { ...ready.call, startedAtMs } } : ready));
}

function needsIntent(ready: ReadyCall, { found }: Batch): boolean {
  const { status, decision, child, index } = ready.call;
  if (status !== 'todo') return false;
  if (isDelegated(ready)) return child === undefined;
  return ready.tool.effect !== 'read' || found.has(index) || (decision?.kind === 'approval' && decision.granted);
}

/** The sequential ones alone first, then the others side by side. */
async function dispatch(toRun: readonly ReadyCall[], batch: Batch): Promise<void> {
  const isSequential = ({ tool }: ReadyCall) => tool.executionMode === 'sequential';
  await inLanes(toRun.filter(isSequential), 1, (call) => runOne(call, batch));
  await inLanes(
    toRun.filter((call) => !isSequential(call)),
    batch.host.maxParallel,
    (call) => runOne(call, batch),
  );
}

async function runOne(ready: ReadyCall, batch: Batch): Promise<void> {
  const { call } = ready;
  const { clock } = batch.host;
  if (isHandoff(ready)) return handedOff(ready, batch);
  if (batch.signal.aborted) return conclude(ready, { kind: 'aborted' }, 0, batch);
  const granted = call.decision?.kind === 'approval' && call.decision.granted;
  if (!granted && batch.unknown.size > 0 && batch.unknown.has(fingerprint(call.name, call.args))) {
    return conclude(ready, { kind: 'result', result: refusedRepeat(call.name) }, 0, batch);
  }
  const startedMs = clock.monotonic();
  const ending = await runCall(ready, batch, async (name, args) => {
    const outcome = await runInner(ready, name, args, batch);
    noteDenial(call.index, name, outcome, batch);
    return outcome;
  });
  if (ending.kind === 'aborted' && ready.tool.effect === 'once' && endsRun(batch.signal.reason)) {
    const key = batch.context.keyFor(batch.host.step, call.index);
    batch.host.emit({ type: 'tool.outcome_unknown', toolCallId: call.id, toolName: call.name, key });
  }
  conclude(ready, ending, Math.max(0, Math.round(clock.monotonic() - startedMs)), batch);
}
