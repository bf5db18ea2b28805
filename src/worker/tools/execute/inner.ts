import { assertNever } from '../../../shared/base/errors.ts';
import { jsonText } from '../../../shared/base/json.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import type { InnerCall, StepCall } from '../../../shared/contract/journal/turn-state.ts';
import { isGated } from '../registry.ts';
import type { InnerOutcome } from '../tool.ts';
import { fingerprint } from './args.ts';
import { permit } from './ask-people.ts';
import type { Batch, Permission } from './batch.ts';
import { announce, endEvent, refusedRepeat } from './conclude.ts';
import { isJudged } from './flow-trail.ts';
import { isRepeat, outcomeBefore, settleUnknown, takeLeft, type LeftCall } from './inner-before.ts';
import { intentOf, keyOf, placeOf, record, settle } from './inner-journal.ts';
import { failure, note, outcomeOf, outcomeUnknown, publishResult, type Ended, type Publish } from './inner-outcome.ts';
import { prepareCall, type ReadyCall } from './prepare.ts';
import { jsonOf } from './result.ts';
import { runCall } from './run-call.ts';
import { readsOf } from './script-reads.ts';
import { turnstile, type Turnstile } from './turnstile.ts';

const maxOutcomeBytes = 1024 * 1024;

interface Script {
  calls: number;
  /** The highest number of a call with a side effect. */
  last: number;
  /** Recorded by an earlier, interrupted run of the script, and not asked for again yet. */
  readonly left: Map<number, InnerCall>;
  readonly pass: Turnstile;
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
    const left = takeLeft(call, script.left, batch);
    // A script may call deferred tools at once: nothing of them is in the context.
    const { registry } = batch.preparation;
    const promoted = registry.listDeferred().map(({ name }) => name);
    const prepared = await prepareCall(call, { ...batch.preparation, promoted });
    const under = { ...prepared, parentToolCallId };
    // What an earlier run of the script did counts before anything that would be decided about the call by now.
    const known = left && (await outcomeBefore(under, left, script.pass, batch));
    if (known) return known;
    const tool = registry.meant(call);
    if (tool && isGated(tool))
      return isRepeat(tool, left) ? await settleUnknown(under, left, batch) : failure('approval_denied', gated);
    if (under.kind === 'refused') return publishResult(under, under.result, batch, (event) => batch.host.emit(event));
    return await decide(under, left, script, batch);
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : 'the call could not be made';
    return stopOf(batch) ?? failure('execution_failed', message);
  }
}

const gated = 'it needs approval: call it directly, not from a script';

/** Asks whether the call may be made, and makes it. */
async function decide(
  ready: ReadyCall,
  left: LeftCall | undefined,
  script: Script,
  batch: Batch,
): Promise<InnerOutcome> {
  const { call, parentToolCallId = '' } = ready;
  const repeat = isRepeat(ready.tool, left) ? left : undefined;
  // One that was begun was judged then.
  const permission = await permit(repeat ? { ...ready, call: { ...call, status: 'interrupted' } } : ready, batch);
  switch (permission.kind) {
    case 'go':
      return await dispatch({ ...permission, call: { ...permission.call, parentToolCallId } }, left, script, batch);
    case 'concluded':
      if (repeat) return await settleUnknown(ready, repeat, batch, permission.denied);
      return await refuse({ ...permission, call: { ...permission.call, parentToolCallId } }, left, script, batch);
    case 'ask':
      if (repeat) return await settleUnknown(ready, repeat, batch);
      letModelCall(ready, batch);
      return failure('approval_denied', 'it needs a person: call it directly, not from a script');
    case 'ends_run':
      batch.fatal.push(permission.end);
      return failure('capability_blocked', 'its denial ends the run');
    default:
      return assertNever(permission);
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
  { call: prepared, result, denied = [] }: Extract<Permission, { readonly kind: 'concluded' }>,
  left: LeftCall | undefined,
  script: Script,
  batch: Batch,
): Promise<InnerOutcome> {
  if (denied.length === 0) return publishResult(prepared, result, batch, (event) => batch.host.emit(event));
  const { call } = prepared;
  const events: EventBody[] = [...denied];
  const outcome = publishResult(prepared, result, batch, (event) => void events.push(event));
  const number = left?.number ?? ++script.last;
  const place = placeOf(call, number, batch);
  const entry: JournalEntry = { ...place, t: 'inner_tool_result', outcome: jsonText(outcome) };
  await record(left ? [entry] : [intentOf(call, number, batch), entry], batch, events);
  return outcome;
}

async function dispatch(
  { call: ready, found }: Extract<Permission, { readonly kind: 'go' }>,
  left: LeftCall | undefined,
  script: Script,
  batch: Batch,
): Promise<InnerOutcome> {
  const { call, tool } = ready;
  const exclusive = tool.executionMode === 'sequential';
  if (tool.effect === 'read' && !found) {
    const publish = (event: EventBody) => batch.host.emit(event);
    return await script.pass(exclusive, async () => stopOf(batch) ?? (await run(ready, batch, publish)).outcome);
  }
  const number = left?.number ?? ++script.last;
  const isSent = left !== undefined || (batch.flow && isJudged(tool, batch.flow.policy));
  if (!isSent) readsOf(call.index, batch).send(call, batch);
  const keyed: ReadyCall = { ...ready, key: keyOf(call, number, batch) };
  return await script.pass(exclusive, async () => {
    // It may have waited for others while the run was stopped.
    const stopped = stopOf(batch);
    if (stopped) return stopped;
    if (!left && batch.unknown.has(fingerprint(call.name, call.args)))
      return publishResult(ready, refusedRepeat(call.name), batch, (event) => batch.host.emit(event));
    if (!left) await record([intentOf(call, number, batch)], batch, found && [found]);
    // The events of its end are published with its outcome: a script that is run again gets the outcome, without events.
    const events: EventBody[] = [];
    const ended = await run(keyed, batch, (event) => void events.push(event));
    return await settle(call, number, { ...ended, events }, batch);
  });
}

/** Why no further call may start; undefined while one may. */
function stopOf({ signal, fatal }: Batch): InnerOutcome | undefined {
  if (signal.aborted) return failure('aborted', 'the run was stopped');
  return fatal.length > 0 ? failure('aborted', 'the run ends') : undefined;
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
  if (ending.kind === 'unknown') return { outcome: outcomeUnknown(ready.call, ready.key ?? '', publish) };
  if (ending.kind === 'aborted') return { outcome: failure('aborted', 'the call was stopped before it answered') };
  publish(endEvent(ready, ending.result, Math.round(clock.monotonic() - startedMs), redactor));
  return { outcome: outcomeOf(ending.result, batch), labels: note(ready, ending.result, batch) };
}
