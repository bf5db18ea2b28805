import type { ToolEffect } from '../../shared/agent.ts';
import { RunError } from '../../shared/errors.ts';
import type { PendingItem } from '../../shared/event.ts';
import { fingerprint } from './args.ts';
import type { Batch, ToolHost, ToolRunContext } from './batch.ts';
import type { StepCall } from './call.ts';
import { announce, conclude, endEvent, refusedRepeat } from './conclude.ts';
import { prepareCall, type PreparedCall, type ReadyCall } from './prepare.ts';
import { reconcile } from './reconcile.ts';
import { createToolRegistry, type Advertisement } from './registry.ts';
import { runCall } from './run-call.ts';
import { StepResults } from './step-results.ts';
import type { Tool } from './tool.ts';

/**
 * How the calls of a step ended. `done`: each has a recorded result. `aborted`: the signal stopped them, what was
 * finished is recorded. `suspended`: some wait for a person to say what became of them. `failed`: a tool says that an
 * unknown outcome ends the run.
 */
export type BatchEnd =
  | { readonly kind: 'done' }
  | { readonly kind: 'aborted' }
  | { readonly kind: 'suspended'; readonly pending: readonly PendingItem[] }
  | { readonly kind: 'failed'; readonly error: RunError };

/** Runs the tools of one agent for one run. */
export interface ToolExecutor {
  advertised(): readonly Advertisement[];
  /** Undefined for a name that is no tool. */
  effectOf(name: string): ToolEffect | undefined;
  /**
   * Runs what is open among the calls of a step, given in call order. Rejects only when something cannot be recorded;
   * then nothing more is started.
   */
  run(calls: readonly StepCall[], host: ToolHost, signal: AbortSignal): Promise<BatchEnd>;
}

/** Throws `validation` for tools of the same name. */
export function createToolExecutor(tools: readonly Tool[], context: ToolRunContext): ToolExecutor {
  const registry = createToolRegistry(tools);
  return {
    advertised: () => registry.advertised(),
    effectOf: (name) => registry.find(name)?.effect,
    async run(calls, host, signal) {
      const open = calls.filter((call) => call.status !== 'called');
      const prepared = await Promise.all(open.map((call) => prepareCall(call, registry, host.redactor)));
      return await runBatch(prepared, batchOf(calls, context, host, signal));
    },
  };
}

function batchOf(calls: readonly StepCall[], context: ToolRunContext, host: ToolHost, outer: AbortSignal): Batch {
  const lost = new AbortController();
  const results = new StepResults(
    calls,
    host,
    (call) => (call.result ? endEvent(call, call.result, 0, host.redactor) : null),
    (error) => lost.abort(error),
  );
  const unknown = new Set(host.unknownCalls.map((call) => fingerprint(call.name, call.args)));
  return { context, host, signal: AbortSignal.any([outer, lost.signal]), results, unknown, pending: [], fatal: [] };
}

async function runBatch(prepared: readonly PreparedCall[], batch: Batch): Promise<BatchEnd> {
  const toRun = await recover(prepared, batch);
  if (batch.fatal.length === 0 && !batch.signal.aborted) {
    await recordIntents(toRun, batch);
    for (const call of toRun) announce(call, batch);
    await dispatch(toRun, batch);
  }
  await batch.results.finish();
  if (batch.signal.aborted) return { kind: 'aborted' };
  if (batch.fatal[0]) return { kind: 'failed', error: batch.fatal[0] };
  return batch.pending.length > 0 ? { kind: 'suspended', pending: batch.pending } : { kind: 'done' };
}

/** Settles what became of the `once` calls that another worker left behind. Answers the calls that shall run. */
async function recover(prepared: readonly PreparedCall[], batch: Batch): Promise<readonly PreparedCall[]> {
  const settled = new Set<PreparedCall>();
  await inLanes(prepared.filter(isInDoubt), batch.host.maxParallel, async (call) => {
    const found = call.kind === 'ready' ? await reconcile(call, batch) : ({ kind: 'unknown' } as const);
    if (found.kind === 'not_done') return;
    settled.add(call);
    conclude(call, found, 0, batch);
  });
  return prepared.filter((call) => !settled.has(call));
}

/** Intents exist for known tools only: where the tool is gone since then, nobody can say what its call did. */
function isInDoubt(prepared: PreparedCall): boolean {
  if (prepared.call.status !== 'interrupted') return false;
  return prepared.kind === 'ready' ? prepared.tool.effect === 'once' : prepared.result.errorKind === 'unknown_tool';
}

/** The intent of every call with a side effect is durable before the first of them starts. */
async function recordIntents(toRun: readonly PreparedCall[], { host }: Batch): Promise<void> {
  const indexes = toRun
    .filter(
      (prepared) => prepared.kind === 'ready' && prepared.tool.effect !== 'read' && prepared.call.status === 'todo',
    )
    .map((prepared) => prepared.call.index);
  if (indexes.length > 0) await host.record([{ v: 1, t: 'calling', step: host.step, indexes }]);
}

/** Refused calls at once, then the sequential ones alone, then the others side by side. */
async function dispatch(toRun: readonly PreparedCall[], batch: Batch): Promise<void> {
  const ready: ReadyCall[] = [];
  for (const prepared of toRun) {
    if (prepared.kind === 'ready') ready.push(prepared);
    else conclude(prepared, { kind: 'result', result: prepared.result }, 0, batch);
  }
  const isSequential = ({ tool }: ReadyCall) => tool.executionMode === 'sequential';
  await inLanes(ready.filter(isSequential), 1, (call) => runOne(call, batch));
  await inLanes(
    ready.filter((call) => !isSequential(call)),
    batch.host.maxParallel,
    (call) => runOne(call, batch),
  );
}

async function runOne(ready: ReadyCall, batch: Batch): Promise<void> {
  const { call } = ready;
  const { clock } = batch.host;
  if (batch.signal.aborted) return conclude(ready, { kind: 'aborted' }, 0, batch);
  if (batch.unknown.size > 0 && batch.unknown.has(fingerprint(call.name, call.args))) {
    return conclude(ready, { kind: 'result', result: refusedRepeat(call.name) }, 0, batch);
  }
  const startedMs = clock.monotonic();
  const ending = await runCall(ready, batch);
  if (ending.kind === 'aborted' && ready.tool.effect === 'once' && endsRun(batch.signal.reason)) {
    batch.host.emit({
      type: 'tool.outcome_unknown',
      toolCallId: call.id,
      toolName: call.name,
      key: batch.context.keyFor(batch.host.step, call.index),
    });
  }
  conclude(ready, ending, Math.max(0, Math.round(clock.monotonic() - startedMs)), batch);
}

/** After these no worker continues the run, so nobody else will say what is not known. */
function endsRun(reason: unknown): boolean {
  return reason instanceof RunError && (reason.code === 'cancelled' || reason.code === 'run_timeout');
}

/** Works through the items, at most `width` at a time, in order of their start. */
async function inLanes<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const lane = async () => {
    for (const item of queue) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
}
