import { jsonOr, jsonText } from '../../../shared/base/json.ts';
import { assertNever } from '../../../shared/base/errors.ts';
import { isUntrusted } from '../../../shared/contract/agent/trust.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntry, JournalEntryOf } from '../../../shared/contract/journal/journal.ts';
import { fingerprint } from './args.ts';
import type { Batch, Permission } from './batch.ts';
import type { CallResult, InnerCall, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import { announce, endEvent, endsRun, unknownOutcome } from './conclude.ts';
import { jsonOf } from './result.ts';
import { permit } from './ask-people.ts';
import { flowNamesOf, isJudged } from './flow-trail.ts';
import { readsOf } from './script-reads.ts';
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
        return await dispatch({ ...permission.call, parentToolCallId }, permission.found, script, batch);
      case 'concluded':
        return await refuse({ ...permission, call: { ...permission.call, parentToolCallId } }, script, batch);
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

/**
 * A call that is not made. What the data-flow policy says about it is in the journal like a call with a side effect, so that it is
 * published once.
 */
async function refuse(
  { call, result, denied = [] }: Extract<Permission, { readonly kind: 'concluded' }>,
  script: Script,
  batch: Batch,
): Promise<InnerOutcome> {
  const ended: EventBody[] = [...denied];
  if (denied.length === 0) return publishResult(call, result, batch, (event) => batch.host.emit(event));
  const { place, before, print } = placeOf(call, script, batch);
  if (before?.outcome !== undefined) return replayed(call, before, before.outcome, batch);
  const outcome = publishResult(call, result, batch, (event) => void ended.push(event));
  const intent: JournalEntry = { ...place, t: 'inner_tool_intent', fingerprint: print };
  const entry: JournalEntry = { ...place, t: 'inner_tool_result', outcome: jsonText(outcome) };
  await record(before ? [entry] : [intent, entry], batch, ended);
  return outcome;
}

/** Where the call is in the journal, and what an interrupted run of the script has left of it there. */
function placeOf({ call }: PreparedCall, script: Script, { host }: Batch) {
  const print = fingerprint(call.name, call.args);
  const [number, before] = [...script.left].find(([, inner]) => inner.fingerprint === print) ?? [++script.last];
  script.left.delete(number);
  return { place: { v: 1, step: host.step, index: call.index, number } as const, before, print };
}

/** What the script got before its worker was lost: it has read that. */
function replayed(call: PreparedCall, before: InnerCall, json: string, batch: Batch): InnerOutcome {
  const outcome = JSON.parse(json) as InnerOutcome;
  if (call.kind === 'ready') noteRead(call, before, outcome, batch);
  return outcome;
}

async function dispatch(
  ready: ReadyCall,
  found: EventBody | undefined,
  script: Script,
  batch: Batch,
): Promise<InnerOutcome> {
  const { host, context } = batch;
  const exclusive = ready.tool.executionMode === 'sequential';
  if (ready.tool.effect === 'read' && !found) {
    const publish = (event: EventBody) => host.emit(event);
    return await script.pass(exclusive, async () => stopOf(batch) ?? (await run(ready, batch, publish)).outcome);
  }
  const { place, before, print } = placeOf(ready, script, batch);
  if (!batch.flow || !isJudged(ready.tool, batch.flow.policy)) readsOf(ready.call.index, batch).send(ready.call, batch);
  if (before?.outcome !== undefined) return replayed(ready, before, before.outcome, batch);
  const keyed: ReadyCall = { ...ready, key: `${context.keyFor(host.step, ready.call.index)}.${place.number}` };
  return await script.pass(exclusive, async () => {
    // It may have waited for others while the run was stopped.
    const stopped = stopOf(batch);
    if (stopped) return stopped;
    const intent: JournalEntry = { ...place, t: 'inner_tool_intent', fingerprint: print };
    if (!before) await record([intent], batch, found && [found]);
    // The events of its end are published with its outcome: a script that is run again gets the outcome, without events.
    const ended: EventBody[] = [];
    const publish = (event: EventBody) => void ended.push(event);
    const inDoubt = before && ready.tool.effect === 'once';
    const { outcome, labels } = inDoubt ? await afterCrash(keyed, batch, publish) : await run(keyed, batch, publish);
    const entry: JournalEntry = { ...place, t: 'inner_tool_result', outcome: jsonText(outcome), ...labels };
    if (!batch.signal.aborted) await record([entry], batch, ended);
    else if (endsRun(batch.signal.reason)) for (const event of ended) host.emit(event);
    return outcome;
  });
}

/** What cannot be recorded is no matter between the script and its call: the whole step is lost. */
async function record(
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

/** Why no further call may start; undefined while one may. */
function stopOf({ signal, fatal }: Batch): InnerOutcome | undefined {
  if (signal.aborted) return failure('aborted', 'the run was stopped');
  return fatal.length > 0 ? failure('aborted', 'the run ends') : undefined;
}

/** Another worker began this call, and it is not known whether it took effect. */
async function afterCrash(ready: ReadyCall, batch: Batch, publish: Publish): Promise<Ended> {
  const found = await reconcile(ready, batch);
  if (found.kind === 'not_done') return await run(ready, batch, publish);
  if (found.kind !== 'result') return { outcome: outcomeUnknown(ready, publish) };
  return { outcome: publishResult(ready, found.result, batch, publish), labels: note(ready, found.result, batch) };
}

/** What a script gets, and the labels of it. Without any it is a text of ours. */
interface Ended {
  readonly outcome: InnerOutcome;
  readonly labels?: Labels;
}
type Labels = Pick<JournalEntryOf<'inner_tool_result'>, 'trust' | 'sensitivity' | 'flow'>;

function outcomeUnknown({ call, key = '' }: ReadyCall, publish: Publish): InnerOutcome {
  publish({ type: 'tool.outcome_unknown', toolCallId: call.id, toolName: call.name, key });
  return failure('outcome_unknown', unknownOutcome);
}

async function run(ready: ReadyCall, batch: Batch, publish: Publish): Promise<Ended> {
  const { clock, redactor } = batch.host;
  if (batch.signal.aborted) return { outcome: failure('aborted', 'the run was stopped') };
  announce(ready, batch);
  const startedMs = clock.monotonic();
  // All of it, and as it is: what a script reads never reaches the context. What the script makes of it does.
  const inboundSanitization = ready.tool.inboundSanitization === 'block' ? 'block' : 'pass';
  const tool = { ...ready.tool, maxResultTokens: 0, maxResultBytes: maxOutcomeBytes, inboundSanitization } as const;
  const ending = await runCall({ ...ready, tool }, batch);
  if (ending.kind === 'unknown') return { outcome: outcomeUnknown(ready, publish) };
  if (ending.kind === 'aborted') return { outcome: failure('aborted', 'the call was stopped before it answered') };
  publish(endEvent(ready, ending.result, Math.round(clock.monotonic() - startedMs), redactor));
  return { outcome: outcomeOf(ending.result, batch), labels: note(ready, ending.result, batch) };
}

/** The script has read this result. Answers its labels for the journal. */
function note(ready: ReadyCall, result: CallResult, batch: Batch): Labels {
  const { trust = ready.tool.trust, sensitivity = ready.tool.sensitivity, flow } = result;
  const labels = { trust, sensitivity, flow };
  noteRead(ready, labels, outcomeOf(result, batch), batch);
  return labels;
}

/** The script has read this outcome. What has no labels is the tool's own. */
function noteRead({ tool, call }: ReadyCall, labels: Labels, outcome: InnerOutcome, batch: Batch): void {
  const { trust = tool.trust, sensitivity = tool.sensitivity, flow } = labels;
  const source = { name: flowNamesOf(tool)[0] ?? tool.name, trust };
  const message = outcome.ok ? textOf(outcome.value) : outcome.message;
  // An error of a trusted tool vouches for nothing: it may repeat what the tool was called with.
  const text = outcome.ok || flow || isUntrusted(trust) ? message : '';
  readsOf(call.index, batch).read({ text, args: call.args, source, sensitivity, flow }, batch);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (jsonText(value) ?? '');
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
