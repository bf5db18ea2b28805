import type { LoopGuard, LoopPattern } from '../../shared/contract/agent/loop-guard.ts';
import { sha256 } from '../../shared/base/ids.ts';
import { canonicalJson, depthOver, jsonOr, maxLevels } from '../../shared/base/json.ts';
import { toolCallsOf, type Message } from '../../shared/contract/message.ts';

/** A call of the run that has its result. */
export interface PastCall {
  /** The step that made it, from 1. */
  readonly step: number;
  readonly name: string;
  /** The same for arguments that are equal. */
  readonly args: string;
  /** The same for results that are equal. */
  readonly result: string;
  readonly errorKind: string | undefined;
}

/** What a tool is, as far as repeats of it are concerned. */
export interface ToolTraits {
  /** Its repeats are meant: it waits for something. */
  readonly mayRepeat: boolean;
  /** It has no effect: a result that was there before is all that a call of it brought. */
  readonly reads: boolean;
  /** Another agent does it, and never answers twice with the same words. */
  readonly delegates: boolean;
}

/** Which rung was taken last about a subject, and at which step. */
export type LoopRungs = ReadonlyMap<
  string,
  { readonly action: 'nudge' | 'withdraw' | 'suspend'; readonly step: number }
>;

/** Something that goes in circles. */
export interface LoopFinding {
  readonly pattern: LoopPattern;
  /** What the ladder is about: a tool, the steps, or the agent that is handed to. */
  readonly subject: string;
  /** Tools to withdraw. */
  readonly tools: readonly string[];
  readonly count: number;
}

/** What the guard looks at. */
export interface LoopView {
  readonly calls: readonly PastCall[];
  readonly handoffs: readonly { readonly step: number; readonly fromAgentId: string; readonly toAgentId: string }[];
  /** The last step that was answered. */
  readonly step: number;
  readonly rungs: LoopRungs;
  /** Nothing up to this step counts: a person has said that it may go on. */
  readonly freshFrom: number;
  readonly traitsOf: (name: string) => ToolTraits;
}

/** How many calls the guard looks back. */
const mostCalls = 256;

/**
 * What goes in circles as of the last step, repeats of the last call first; undefined for nothing. A pure function of the
 * conversation and the rungs that were taken, so that every worker finds the same.
 */
export function findLoop(view: LoopView, guard: LoopGuard): LoopFinding | undefined {
  const last = view.calls.filter(({ step }) => step === view.step);
  for (const call of last.toReversed()) {
    const found = repeatedCall(call, view, guard) ?? repeatedError(call, view, guard);
    if (found) return found;
  }
  return staleSteps(last, view, guard) ?? handoffCircle(view, guard);
}

/** The step after which a subject counts, and how often it may happen until the next rung. */
function countFrom({ rungs, freshFrom }: LoopView, subject: string, threshold: number, { escalateAfter }: LoopGuard) {
  const rung = rungs.get(subject);
  return rung && rung.step >= freshFrom
    ? { after: rung.step, threshold: escalateAfter }
    : { after: freshFrom, threshold };
}

/** Calls with the same arguments since the result was another one. The answer of an agent is never the same: any counts. */
function repeatedCall(call: PastCall, view: LoopView, guard: LoopGuard): LoopFinding | undefined {
  const { name } = call;
  const { mayRepeat, delegates } = view.traitsOf(name);
  if (mayRepeat || call.errorKind !== undefined) return undefined;
  const { after, threshold } = countFrom(view, name, guard.repeatedCalls, guard);
  const same = view.calls.filter((one) => one.name === name && one.args === call.args && one.step > after);
  const changed = delegates ? -1 : same.findLastIndex(({ result }) => result !== call.result);
  const count = same.length - 1 - changed;
  return count >= threshold ? { pattern: 'repeated_call', subject: name, tools: [name], count } : undefined;
}

/** Errors of one kind since the tool had another end. */
function repeatedError(call: PastCall, view: LoopView, guard: LoopGuard): LoopFinding | undefined {
  const { name, errorKind } = call;
  if (errorKind === undefined) return undefined;
  const { after, threshold } = countFrom(view, name, guard.repeatedErrors, guard);
  const own = view.calls.filter((one) => one.name === name && one.step > after);
  const count = own.length - 1 - own.findLastIndex((one) => one.errorKind !== errorKind);
  return count >= threshold ? { pattern: 'repeated_error', subject: name, tools: [name], count } : undefined;
}

const stepsSubject = 'steps';

/** Steps since one of their calls brought something new: a result that was not there, or an effect. */
function staleSteps(last: readonly PastCall[], view: LoopView, guard: LoopGuard): LoopFinding | undefined {
  const { after: own, threshold } = countFrom(view, stepsSubject, guard.staleSteps, guard);
  // A ladder about a tool of these steps is under way: what came before its last rung has been dealt with.
  const after = Math.max(own, ...[...view.rungs.values()].map((rung) => rung.step));
  const seen = new Set<string>();
  let count = 0;
  let step = 0;
  let isStale = true;
  const close = () => {
    if (step > after) count = isStale ? count + 1 : 0;
  };
  for (const call of view.calls) {
    if (call.step !== step) {
      if (step > 0) close();
      step = call.step;
      isStale = true;
    }
    const { mayRepeat, reads } = view.traitsOf(call.name);
    isStale &&= !mayRepeat && (reads || call.errorKind !== undefined) && seen.has(call.result);
    seen.add(call.result);
  }
  if (step === 0 || step !== view.step) return undefined;
  close();
  if (count < threshold) return undefined;
  const tools = [...new Set(last.map(({ name }) => name))];
  return { pattern: 'stale_steps', subject: stepsSubject, tools, count };
}

/** Handoffs from one agent to the same other one, seen when the other one begins. */
function handoffCircle({ handoffs, step, rungs, freshFrom }: LoopView, guard: LoopGuard): LoopFinding | undefined {
  const latest = handoffs.at(-1);
  if (!latest || latest.step !== step) return undefined;
  const subject = `handoff:${latest.fromAgentId}:${latest.toAgentId}`;
  const rung = rungs.get(subject);
  if (rung && rung.step >= step) return undefined;
  const count = handoffs.filter(
    (one) => one.fromAgentId === latest.fromAgentId && one.toAgentId === latest.toAgentId && one.step > freshFrom,
  ).length;
  return count >= guard.handoffs ? { pattern: 'handoff_circle', subject, tools: [], count } : undefined;
}

/** The rung that comes next about a subject. */
export function nextRung(rungs: LoopRungs, { subject, tools }: LoopFinding): 'nudge' | 'withdraw' | 'suspend' {
  const taken = rungs.get(subject)?.action;
  if (taken === undefined) return 'nudge';
  return taken === 'nudge' && tools.length > 0 ? 'withdraw' : 'suspend';
}

/** The calls of a conversation that have results, oldest first, as far back as the guard looks. `messages` begin with the first step. */
export function pastCalls(messages: readonly Message[]): PastCall[] {
  const calls: PastCall[] = [];
  let step = 0;
  let open = new Map<string, { readonly name: string; readonly args: string }[]>();
  for (const message of messages) {
    if (message.role === 'assistant') {
      step++;
      open = new Map();
      for (const { id, name, args } of toolCallsOf(message)) open.set(id, [...(open.get(id) ?? []), { name, args }]);
    }
    if (message.role !== 'tool') continue;
    // Models repeat ids within a step: results come in the order of the calls.
    const call = open.get(message.toolCallId)?.shift();
    if (!call) continue;
    const errorKind = message.isError ? kindIn(message.content) : undefined;
    calls.push({ step, name: call.name, args: argsKey(call.args), result: resultKey(message), errorKind });
  }
  return calls.slice(-mostCalls);
}

/** Results are looked at again at every step: each is hashed once. */
const resultKeys = new WeakMap<Message, string>();

function resultKey(message: Extract<Message, { role: 'tool' }>): string {
  const known = resultKeys.get(message);
  if (known !== undefined) return known;
  const key = sha256(message.content.trim());
  resultKeys.set(message, key);
  return key;
}

function argsKey(text: string): string {
  if (depthOver(text, maxLevels)) return sha256(text);
  const value = jsonOr(text);
  return sha256(value === undefined ? text.trim() : canonicalJson(value));
}

/** An error text of ours ends with its kind. */
function kindIn(content: string): string {
  return /\nKind: (\w+)\s*$/.exec(content)?.[1] ?? 'error';
}
