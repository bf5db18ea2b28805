import { defined, inLanes } from '../../../shared/base/collections.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { toolBreaker, type ToolOwner, type Admission } from '../../../shared/state/limits/breakers.ts';
import { toolIn } from './args.ts';
import type { Batch, CallEnding } from './batch.ts';
import type { ReadyCall, PreparedCall, RefusedCall } from './prepare.ts';
import { finishFault, finishResult, shownData } from './result.ts';
import type { HostContext, ToolContext, InnerOutcome, Tool, Reconciliation } from '../tool.ts';
import { errorResult, faultOf, ToolError } from '../tool-error.ts';
import { within, type Settled } from '../../../shared/base/deadline.ts';
import { conclude, outcomeItem, unknownResult } from './conclude.ts';

const maxRetries = 3;
const retryBaseMs = 250;

/** Consecutive failures of a tool, over all workers, after which no worker calls it for a while. */
const breakerPolicy = { failureThreshold: 5, cooldownMs: 30_000 };

export type CallInner = (name: string, args: unknown) => Promise<InnerOutcome>;

interface Running {
  readonly promoted: string[];
  readonly settled: Settled;
}

/** Runs a call. A tool that reports a rate limit is tried again, if a repeat cannot do harm. Never rejects. */
export async function runCall(ready: ReadyCall, batch: Batch, callInner?: CallInner): Promise<CallEnding> {
  const { tool, call } = ready;
  const target = toolBreaker(batch.context.tenant, ownerOf(tool, batch));
  const admission = await admit(target, batch);
  if (admission?.kind === 'open') {
    const message = `it failed ${breakerPolicy.failureThreshold} times in a row and is not called for ${Math.ceil(admission.retryAfterMs / 1_000)} s`;
    return { kind: 'result', result: errorResult({ kind: 'execution_failed', message }, call.name) };
  }
  for (let retry = 0; ; retry++) {
    const run = await execute(ready, batch, callInner);
    const { settled } = run;
    const again = settled.kind === 'threw' && faultOf(settled.error).kind === 'rate_limited' && tool.effect !== 'once';
    if (!again || retry === maxRetries) {
      if (admission) report(target, settled, admission, batch);
      return await endingOf(run, ready, batch);
    }
    await batch.host.clock.sleep(retryBaseMs * 2 ** retry, batch.signal).catch(() => {});
    if (batch.signal.aborted) {
      if (admission) report(target, { kind: 'aborted' }, admission, batch);
      return { kind: 'aborted' };
    }
  }
}

function ownerOf({ name, source }: Tool, { context }: Batch): ToolOwner {
  if (source) return { kind: 'server', ...source, tool: source.safeName };
  const agentId = context.about?.['agentId'];
  return { kind: 'agent', agentId: typeof agentId === 'string' ? agentId : '', tool: name };
}

async function admit(target: string, { context, signal }: Batch): Promise<Admission | undefined> {
  return await context.breakers?.admit(target, 0, signal).catch(() => undefined);
}

/** Only what the tool itself did not manage counts against it: a mistake of the model does not. */
function report(target: string, settled: Settled, admission: Admission, { context }: Batch): void {
  const outcome = () => {
    if (settled.kind === 'value') return 'success';
    if (settled.kind === 'timeout') return 'failure';
    if (settled.kind !== 'threw') return 'neutral';
    const { kind } = faultOf(settled.error);
    return kind === 'execution_failed' || kind === 'outcome_unknown' ? 'failure' : 'neutral';
  };
  context.breakers?.report(target, outcome(), admission, breakerPolicy).catch(() => {});
}

async function execute(ready: ReadyCall, batch: Batch, callInner: CallInner | undefined): Promise<Running> {
  const { call, tool, args } = ready;
  const { host, context } = batch;
  const promoted: string[] = [];
  let open = true;
  // A call that was abandoned may still report: its reports are dropped.
  const publisher = (type: 'tool.execute.progress' | 'tool.execute.partial') => (data: unknown) => {
    if (open) host.emit({ type, toolCallId: call.id, data: shownData(data, host.redactor) });
  };
  const given = defined({
    runId: context.runId,
    tenant: context.tenant,
    toolCallId: call.id,
    idempotencyKey: ready.key ?? context.keyFor(host.step, call.index),
    effect: tool.effect,
    progress: publisher('tool.execute.progress'),
    partial: publisher('tool.execute.partial'),
    secrets: { get: (name: string) => secretOf(name, tool, batch) },
    logger: (context.log ?? silentLog).child({ tool: call.name, toolCallId: call.id }),
    workspaceDir: context.workspaceDir,
    directories: context.directories,
  });
  const ofPackage: Omit<HostContext, keyof ToolContext> = {
    ...defined({ startedAtMs: call.startedAtMs }),
    emit: (event) => {
      if (open) host.emit(event);
    },
    catalogue: () => batch.preparation.registry.catalogue(),
    promote: (names) => void promoted.push(...names),
    callTool: async (name, innerArgs) =>
      open && callInner
        ? await callInner(name, innerArgs)
        : { ok: false, kind: 'aborted', message: 'the call that asks for it has ended' },
    calledBefore: [...(call.inner?.values() ?? [])].map(({ fingerprint }) => toolIn(fingerprint)),
  };
  const own = tool.ofPackage ? ofPackage : {};
  const work = (signal: AbortSignal) => tool.execute(args, { ...given, ...own, signal });
  const settled = await within(tool.timeoutMs, work, host.clock, batch.signal);
  open = false;
  return { promoted, settled };
}

function secretOf(name: string, tool: Tool, { context }: Batch): string {
  const allowed = tool.secretsAllowed.includes(name) && (context.secretsAllowed?.includes(name) ?? true);
  const value = allowed ? context.secrets?.get(name) : undefined;
  if (value !== undefined) return value;
  if (allowed) throw new ToolError('tool_unavailable', `this worker does not have the secret ${name}`);
  throw new ToolError('capability_blocked', `secret ${name} is not for this tool: it may not ask for it`);
}

async function endingOf({ settled, promoted }: Running, ready: ReadyCall, batch: Batch): Promise<CallEnding> {
  const ending = await resultOf(settled, ready, batch);
  const names = [...promoted, ...(batch.needPeople.get(ready.call.index) ?? [])];
  // A call of a script has no entry of its own: what it promotes goes with that of its script.
  if (ending.kind !== 'result' || names.length === 0 || ready.parentToolCallId !== undefined) return ending;
  return { kind: 'result', result: { ...ending.result, promoted: names } };
}

async function resultOf(settled: Settled, ready: ReadyCall, batch: Batch): Promise<CallEnding> {
  const { tool, call } = ready;
  if (settled.kind === 'aborted') return settled;
  if (settled.kind === 'value') return { kind: 'result', result: await finishResult(ready, settled.value, batch) };
  if (settled.kind === 'threw') {
    // The run itself cannot go on: that is no matter between the tool and the model.
    if (settled.error instanceof RunError && settled.error.code === 'lock_lost') return { kind: 'aborted' };
    const { kind, message } = faultOf(settled.error);
    const isUnsure = kind === 'outcome_unknown' && tool.effect === 'once';
    const fault = isUnsure ? new ToolError('execution_failed', message) : settled.error;
    const failed: CallEnding = { kind: 'result', result: finishFault(ready, fault, batch) };
    return isUnsure ? await unlessKnown(failed, ready, batch) : failed;
  }
  const message = `it did not answer within ${tool.timeoutMs} ms`;
  const result = errorResult({ kind: 'timeout', message }, call.name);
  return await unlessKnown({ kind: 'result', result }, ready, batch);
}

/** A call without an answer may have taken effect. Where the tool reports that it has not, the call has failed. */
async function unlessKnown(failed: CallEnding, ready: ReadyCall, batch: Batch): Promise<CallEnding> {
  if (ready.tool.effect !== 'once') return failed;
  const found = await reconcile(ready, batch);
  return found.kind === 'not_done' ? failed : found;
}

/** What is known about a call that may have taken effect. `not_done`: it surely has not. */
type Found = CallEnding | { readonly kind: 'not_done' };

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

/**
 * Settles what became of the `once` calls that another worker left behind, as far as it can be known. Answers the calls
 * that shall run.
 */
export async function recover(prepared: readonly PreparedCall[], batch: Batch): Promise<readonly PreparedCall[]> {
  const settled = new Set<PreparedCall>();
  await inLanes(prepared.filter(isInDoubt), batch.host.maxParallel, async (call) => {
    if (call.call.ask?.kind === 'unknown_outcome') {
      if (settleByPerson(call, batch)) settled.add(call);
      return;
    }
    const found = call.kind === 'ready' ? await reconcile(call, batch) : ({ kind: 'unknown' } as const);
    if (found.kind === 'not_done') return;
    settled.add(call);
    conclude(call, found, 0, batch);
  });
  return prepared.filter((call) => !settled.has(call));
}

function isInDoubt(prepared: PreparedCall): boolean {
  if (prepared.call.status !== 'interrupted') return false;
  return prepared.kind === 'ready' ? prepared.tool.effect === 'once' : prepared.result.errorKind === 'unknown_tool';
}

/**
 * May a call that was begun, and can not be made any more, have taken effect? Intents exist for known tools only: where the tool
 * is gone since then, or takes other arguments, no worker can find out what its call did.
 */
export function mayHaveActed(
  { call }: RefusedCall,
  { preparation: { registry } }: Pick<Batch, 'preparation'>,
): boolean {
  return registry.meant(call)?.effect !== 'read';
}

/** What a person decided about a call whose outcome is not known. False: it shall run again. */
function settleByPerson(prepared: PreparedCall, batch: Batch): boolean {
  const { call } = prepared;
  const { ask, decision } = call;
  if (!ask || (decision?.kind === 'approval' && decision.granted)) return false;
  if (decision || ask.expiresAtMs <= batch.host.clock.now()) {
    const result = decision?.kind === 'answer' ? { content: decision.answer } : unknownResult(call.name);
    conclude(prepared, { kind: 'result', result }, 0, batch);
  } else {
    batch.asks.push({ item: outcomeItem(prepared, ask), ask, isNew: false });
    batch.results.settle(call.index, null);
  }
  return true;
}
