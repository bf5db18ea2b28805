import { jsonOr, jsonText } from '../../../shared/base/json.ts';
import { lessTrusted } from '../../../shared/contract/agent/trust.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import { lessPublic } from '../../../shared/contract/message.ts';
import { fingerprint } from './args.ts';
import type { Batch } from './batch.ts';
import type { CallResult, InnerCall, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import { announce, endEvent, endsRun, unknownOutcome } from './conclude.ts';
import { jsonOf } from './result.ts';
import { permit } from './ask-people.ts';
import { prepareCall, type PreparedCall, type ReadyCall } from './prepare.ts';
import { reconcile, runCall } from './run-call.ts';
import { messageIn } from '../tool-error.ts';
import type { InnerOutcome } from '../tool.ts';

/** Publishes how a call ended, or has that wait for its entry. */
type Publish = (event: EventBody) => void;

const maxOutcomeBytes = 1024 * 1024;

interface Script {
  calls: number;
  /** The highest number of a call with a side effect. */
  last: number;
  /** Recorded by an earlier, interrupted run of the script, and not asked for again yet. */
  readonly left: Map<number, InnerCall>;
  readonly pass: ReturnType<typeof turnstile>;
}

const scripts = new WeakMap<StepCall, Script>();

/**
 * Makes a call on behalf of another one, through the same checks. A call with a side effect is in the journal before it
 * starts and after it has ended, so that a script which is run again gets the same answer and the effect happens once.
 */
export async function runInner(parent: ReadyCall, name: string, given: unknown, batch: Batch): Promise<InnerOutcome> {
  const script = scriptOf(parent.call, batch);
  const stopped = stopOf(batch);
  if (stopped) return stopped;
  try {
    const args = jsonOf(given) ?? '{}';
    const { index, id: parentToolCallId } = parent.call;
    const id = `${parentToolCallId}/${++script.calls}`;
    const call: StepCall = { index, id, name, args, status: 'todo' };
    // A script may call deferred tools at once: nothing of them is in the context.
    const { registry } = batch.preparation;
    const promoted = registry.listDeferred().map(({ name }) => name);
    const prepared = await prepareCall(call, { ...batch.preparation, promoted });
    const under = { ...prepared, parentToolCallId };
    const publish = (event: EventBody) => batch.host.emit(event);
    if (under.kind === 'refused') return publishResult(under, under.result, batch, publish);
    const permission = await permit(under, batch);
    switch (permission.kind) {
      case 'go':
        return await dispatch({ ...permission.call, parentToolCallId }, script, batch);
      case 'concluded':
        if (permission.denied) batch.host.emit(permission.denied);
        return publishResult({ ...permission.call, parentToolCallId }, permission.result, batch, publish);
      case 'ask':
        letModelCall(under, batch);
        return failure('approval_denied', 'it needs a person: call it directly, not from a script');
      case 'ends_run':
        batch.fatal.push(permission.end);
        return failure('capability_blocked', 'its denial ends the run');
      default:
        return assertNever(permission);
    }
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : 'the call could not be made';
    return stopOf(batch) ?? failure('execution_failed', message);
  }
}

/** The model has to call this one itself, and so has to know of it. */
function letModelCall({ call, tool }: ReadyCall, { needPeople }: Batch): void {
  const names = needPeople.get(call.index) ?? new Set();
  needPeople.set(call.index, names.add(tool.name));
}

function scriptOf(call: StepCall, { host }: Batch): Script {
  const known = scripts.get(call);
  if (known) return known;
  const left = new Map(call.inner);
  const script = { calls: 0, last: Math.max(0, ...left.keys()), left, pass: turnstile(host.maxParallel) };
  scripts.set(call, script);
  return script;
}

async function dispatch(ready: ReadyCall, script: Script, batch: Batch): Promise<InnerOutcome> {
  const { host, context } = batch;
  const exclusive = ready.tool.executionMode === 'sequential';
  if (ready.tool.effect === 'read') {
    const publish = (event: EventBody) => host.emit(event);
    return await script.pass(exclusive, async () => stopOf(batch) ?? (await run(ready, batch, publish)));
  }
  const print = fingerprint(ready.call.name, ready.call.args);
  const before = [...script.left].find(([, inner]) => inner.fingerprint === print);
  const number = before?.[0] ?? ++script.last;
  if (before) script.left.delete(number);
  if (before?.[1].outcome !== undefined) return JSON.parse(before[1].outcome) as InnerOutcome;
  const place = { v: 1, step: host.step, index: ready.call.index, number } as const;
  const keyed: ReadyCall = { ...ready, key: `${context.keyFor(host.step, ready.call.index)}.${number}` };
  return await script.pass(exclusive, async () => {
    // It may have waited for others while the run was stopped.
    const stopped = stopOf(batch);
    if (stopped) return stopped;
    if (!before) await record({ ...place, t: 'inner_tool_intent', fingerprint: print }, batch);
    // The events of its end are published with its outcome: a script that is run again gets the outcome, without events.
    const ended: EventBody[] = [];
    const publish = (event: EventBody) => void ended.push(event);
    const inDoubt = before && ready.tool.effect === 'once';
    const outcome = inDoubt ? await afterCrash(keyed, batch, publish) : await run(keyed, batch, publish);
    const entry: JournalEntry = { ...place, t: 'inner_tool_result', outcome: jsonText(outcome) };
    if (!batch.signal.aborted) await record(entry, batch, ended);
    else if (endsRun(batch.signal.reason)) for (const event of ended) host.emit(event);
    return outcome;
  });
}

/** What cannot be recorded is no matter between the script and its call: the whole step is lost. */
async function record(entry: JournalEntry, { host, results }: Batch, events: readonly EventBody[] = []): Promise<void> {
  try {
    await host.record([entry], events);
  } catch (error) {
    results.lose(error);
    throw error;
  }
}

/** Why no further call may start; undefined while one may. */
function stopOf({ signal, fatal }: Batch): InnerOutcome | undefined {
  if (signal.aborted) return failure('aborted', 'the run was stopped');
  return fatal.length > 0 ? failure('aborted', 'the run ends') : undefined;
}

/** Another worker began this call, and it is not known whether it took effect. */
async function afterCrash(ready: ReadyCall, batch: Batch, publish: Publish): Promise<InnerOutcome> {
  const found = await reconcile(ready, batch);
  if (found.kind === 'not_done') return await run(ready, batch, publish);
  if (found.kind === 'result') return publishResult(ready, found.result, batch, publish);
  return outcomeUnknown(ready, publish);
}

function outcomeUnknown({ call, key = '' }: ReadyCall, publish: Publish): InnerOutcome {
  publish({ type: 'tool.outcome_unknown', toolCallId: call.id, toolName: call.name, key });
  return failure('outcome_unknown', unknownOutcome);
}

async function run(ready: ReadyCall, batch: Batch, publish: Publish): Promise<InnerOutcome> {
  const { clock, redactor } = batch.host;
  if (batch.signal.aborted) return failure('aborted', 'the run was stopped');
  announce(ready, batch);
  const startedMs = clock.monotonic();
  // All of it, and as it is: what a script reads never reaches the context. What the script makes of it does.
  const inboundSanitization = ready.tool.inboundSanitization === 'block' ? 'block' : 'pass';
  const tool = { ...ready.tool, maxResultTokens: 0, maxResultBytes: maxOutcomeBytes, inboundSanitization } as const;
  const ending = await runCall({ ...ready, tool }, batch);
  if (ending.kind === 'unknown') return outcomeUnknown(ready, publish);
  if (ending.kind === 'aborted') return failure('aborted', 'the call was stopped before it answered');
  publish(endEvent(ready, ending.result, Math.round(clock.monotonic() - startedMs), redactor));
  const { trust = tool.trust, sensitivity = tool.sensitivity } = ending.result;
  const mixed = batch.mixed.get(ready.call.index);
  batch.mixed.set(ready.call.index, {
    trust: lessTrusted(trust, mixed?.trust),
    sensitivity: lessPublic(sensitivity, mixed?.sensitivity),
  });
  return outcomeOf(ending.result, batch);
}

function publishResult(prepared: PreparedCall, result: CallResult, batch: Batch, publish: Publish): InnerOutcome {
  announce(prepared, batch, result);
  publish(endEvent(prepared, result, 0, batch.host.redactor));
  return outcomeOf(result, batch);
}

function outcomeOf({ content, errorKind }: CallResult, { host }: Batch): InnerOutcome {
  const text = host.redactor.secrets(content);
  if (errorKind) return failure(errorKind, messageIn(text));
  return { ok: true, value: jsonOr(text, text) };
}

function failure(kind: Extract<InnerOutcome, { ok: false }>['kind'], message: string): InnerOutcome {
  return { ok: false, kind, message };
}

/** Lets work through side by side, at most `width` at a time, and what is exclusive alone; in order of arrival. */
function turnstile(width: number) {
  const waiting: { readonly isAlone: boolean; readonly enter: () => void }[] = [];
  let [inside, isTaken] = [0, false];
  const admit = (): void => {
    for (let next = waiting[0]; next; next = waiting[0]) {
      const isFull = next.isAlone ? inside > 0 : inside >= width;
      if (isFull || isTaken) return;
      waiting.shift();
      inside++;
      isTaken = next.isAlone;
      next.enter();
    }
  };
  return async <T>(isAlone: boolean, work: () => Promise<T>): Promise<T> => {
    const { promise: admitted, resolve: enter } = Promise.withResolvers<void>();
    waiting.push({ isAlone, enter });
    admit();
    await admitted;
    try {
      return await work();
    } finally {
      inside--;
      isTaken = false;
      admit();
    }
  };
}
