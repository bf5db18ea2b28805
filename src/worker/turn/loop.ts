import type { LoopAction } from '../../shared/contract/agent/loop-guard.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import { jsonOr } from '../../shared/base/json.ts';
import type { EventBody, PendingItem } from '../../shared/contract/event.ts';
import { journalVersion, type JournalEntryOf } from '../../shared/contract/journal/journal.ts';
import type { LoopAsk, TurnState } from '../../shared/contract/journal/turn-state.ts';
import type { LoopFinding } from '../guards/loop.ts';
import { noteAbout, runNotes } from '../prompt/run-notes.ts';
import { callSummary, shownArgs } from '../tools/execute/args.ts';
import { recordEntry, type SuspendedWait, type Turn } from './turn-ports.ts';

/** Warns the model, or withdraws the tools as well: durable when it resolves. */
export async function breakLoop(turn: Turn, finding: LoopFinding, action: 'nudge' | 'withdraw'): Promise<void> {
  const { spec, growing, deps } = turn;
  const { pattern, subject, count, tools } = finding;
  const notes = runNotes(spec.locale ?? 'en');
  const named = { count, tools: tools.map((name) => knownName(name, turn)) };
  const about = noteAbout(notes[pattern], named);
  const text = action === 'withdraw' ? `${about} ${noteAbout(notes.withdrawn, named)}` : about;
  const withdrawn = action === 'withdraw' ? [...tools] : undefined;
  deps.emit(detected(growing.state, finding, action));
  await recordEntry(turn, {
    t: 'loop_guarded',
    step: growing.state.step,
    pattern,
    action,
    subject,
    count,
    text,
    withdrawn,
  });
}

/** A name that no tool has is text of the model, and has no place in what this system says. */
function knownName(name: string, { deps }: Turn): string {
  return deps.tools.classificationOf(name) ? name : 'unknown_tool';
}

/** The wait for a person who says whether the run may go on. */
export function askAboutLoop({ spec, growing: { state }, deps }: Turn, finding: LoopFinding): SuspendedWait {
  const { pattern, subject, count } = finding;
  const { ttlMs, approvers } = spec.people ?? { ttlMs: 0, approvers: 1 };
  const now = deps.clock.now();
  const id = `${loopAskPrefix}${state.loop.asks + 1}`;
  const ask: LoopAsk = { id, pattern, subject, count, requestedAtMs: now, expiresAtMs: now + ttlMs };
  const times = { requestedAt: new Date(now).toISOString(), expiresAt: new Date(ask.expiresAtMs).toISOString() };
  const entry: JournalEntryOf<'loop_guarded'> = {
    v: journalVersion,
    t: 'loop_guarded',
    step: state.step,
    pattern,
    action: 'suspend',
    subject,
    count,
    ask: { id, ...times },
  };
  const item = pendingOf(ask, approvers, { state, deps });
  const { toolName = '', args = {}, reason, classification = wholeRun } = item;
  const requested: EventBody = {
    type: 'tool.approval.requested',
    toolCallId: id,
    toolName,
    args,
    reason,
    mode: 'approval',
    classification,
    ...times,
  };
  const events = [detected(state, finding, 'suspend'), requested];
  return { reason: 'approval', pending: [item], entries: [entry], events, resumeAtMs: ask.expiresAtMs };
}

/** Ids of what people are asked about a run that goes in circles. No model gives such an id to a call: it has no step. */
export const loopAskPrefix = 'loop-guard:';

/** What a person reads whose decision is about the whole run, and no tool of it. */
const wholeRun = { trust: 'built-in', sideEffectClass: 'none', sensitivity: 'internal' };

/**
 * What became of the question: the run goes on with a new ladder, waits still, or ends. Nothing is published twice: a grant goes
 * with its entry.
 */
export async function heedLoopDecision(turn: Turn, ask: LoopAsk): Promise<'go' | SuspendedWait | RunError> {
  const { spec, growing, deps } = turn;
  const { state } = growing;
  const { decision } = ask;
  const toolName = toolOf(ask);
  if (decision?.kind === 'approval' && decision.granted) {
    const by = decision.by.join(', ') || undefined;
    deps.emit({ type: 'tool.approval.granted', toolCallId: ask.id, toolName, by, reason: decision.reason });
    await recordEntry(turn, { t: 'loop_cleared', step: state.step });
    return 'go';
  }
  if (!decision && deps.clock.now() < ask.expiresAtMs) {
    const item = pendingOf(ask, spec.people?.approvers ?? 1, { state, deps });
    return { reason: 'approval', pending: [item], resumeAtMs: ask.expiresAtMs };
  }
  const reason = decision?.kind === 'approval' ? (decision.reason ?? 'a person denied it') : 'expired';
  const by = decision?.by.join(', ') || undefined;
  deps.emit({ type: 'tool.approval.denied', toolCallId: ask.id, toolName, by, reason: deps.redactor.text(reason) });
  return noProgress(turn, { ...ask, tools: toolName === '' ? [] : [toolName] });
}

/** Ends the run. */
export function noProgress(turn: Turn, finding: LoopFinding): RunError {
  const { growing, deps } = turn;
  deps.emit(detected(growing.state, finding, 'fail'));
  const { pattern, tools, count } = finding;
  return new RunError(
    'no_progress',
    `the run went in circles: ${inWords({ ...finding, subject: knownName(finding.subject, turn) })}; see its last calls, then change its instructions or tools, or set toolOptions.<tool>.mayRepeat or loopGuard`,
    { details: { pattern, tools, count } },
  );
}

function detected({ step: stepNumber }: TurnState, finding: LoopFinding, action: LoopAction): EventBody {
  const { pattern, tools, count } = finding;
  return { type: 'agent.loop.detected', stepNumber, pattern, action, toolNames: [...tools], count };
}

function inWords({ pattern, subject, count }: Pick<LoopFinding, 'pattern' | 'subject' | 'count'>): string {
  switch (pattern) {
    case 'repeated_call':
      return `${subject} was called ${count} times with the same arguments and the same result`;
    case 'repeated_error':
      return `${subject} failed ${count} times in a row with the same kind of error`;
    case 'stale_steps':
      return `${count} steps in a row brought nothing new`;
    case 'handoff_circle':
      return `the same agents handed the conversation to each other ${count} times`;
    default:
      return assertNever(pattern);
  }
}

function toolOf({ pattern, subject }: Pick<LoopAsk, 'pattern' | 'subject'>): string {
  return pattern === 'repeated_call' || pattern === 'repeated_error' ? subject : '';
}

/** What people see: what goes in circles, how often, and its last call. */
function pendingOf(
  ask: LoopAsk,
  approvers: number,
  { state, deps }: { state: TurnState; deps: Turn['deps'] },
): PendingItem {
  const toolName = toolOf(ask);
  const call = state.calls.findLast(({ name }) => toolName === '' || name === toolName);
  const args = call ? shownArgs(jsonOr(call.args, {}), deps.redactor) : {};
  const lastCall = toolName === '' && call ? ` The last call was ${callSummary(call.name, args)}.` : '';
  return {
    kind: 'approval',
    id: ask.id,
    toolName: toolName === '' ? call?.name : toolName,
    args,
    reason: `The run goes in circles: ${inWords(ask)}.${lastCall} Granted, it goes on; denied, it ends with no_progress.`,
    requestedAt: new Date(ask.requestedAtMs).toISOString(),
    expiresAt: new Date(ask.expiresAtMs).toISOString(),
    mode: 'approval',
    approvers: approvers > 1 ? approvers : undefined,
    classification: (toolName === '' ? undefined : deps.tools.classificationOf(toolName)) ?? wholeRun,
    // It is no call that would run: there are no arguments to put in the place of the model's.
    argsSchema: { not: {} },
  };
}
