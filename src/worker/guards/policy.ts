import { canonicalJson, deeperThan, isRecord, maxLevels } from '../../shared/base/json.ts';
import type { PolicyAction, PolicyCondition, PolicyRule, PolicySubject } from '../../shared/contract/agent/policy.ts';
import { assertNever } from '../../shared/base/errors.ts';
import { serverPrefix } from '../../shared/contract/agent/mcp.ts';
import { hardReason, hardText, type ToolFacts, type HardReason, type HardRules } from './hard-rules.ts';

/** A call, as rules see it. */
export interface PolicyQuestion {
  readonly subject: PolicySubject;
  /** Name of the event that would follow, for instance `tool.execute.start`. */
  readonly eventType: string;
  readonly toolName?: string;
  /** Of a server's tool: the names by which rules mean it, `mcp:<server>/<tool>`. Absent: it is code of this worker. */
  readonly sourceNames?: readonly string[] | undefined;
  readonly subagentName?: string;
  /** As the model gave them. */
  readonly args?: unknown;
  readonly facts?: ToolFacts;
  /** What this system knows: agentId, tenant, stepNumber and so on. */
  readonly context: Readonly<Record<string, unknown>>;
  /** Of the run. */
  readonly metadata: Readonly<Record<string, string>>;
  /** A person has granted this very call. Rules that ask for that are content, all others still apply. */
  readonly approved?: boolean;
}

export interface PolicyVerdict {
  readonly action: PolicyAction;
  readonly ruleId?: string;
  /** For people; never contains an argument. */
  readonly reason?: string | undefined;
  /** All arguments in place of the model's. */
  readonly updatedToolArgs?: Readonly<Record<string, unknown>>;
  /** A hard rule decided this. `gate_required` comes with `request_approval`, every other one with `deny`. */
  readonly hard?: HardReason;
}

export interface Policy {
  /** There are no rules but the hard ones, which are about what a tool declares that it touches. */
  readonly isEmpty: boolean;
  isAbout(subject: PolicySubject): boolean;
  /** Hard rules first, then the first rule that matches; without one the call is allowed. Never throws. */
  decide(question: PolicyQuestion): PolicyVerdict;
  /** The hard rules alone, for arguments that have changed after the decision; undefined when they have no objection. */
  decideHard(question: PolicyQuestion): PolicyVerdict | undefined;
}

/**
 * A policy out of rules. The highest priority comes first; of equal priority the rules of `rules` before those of
 * `own`, the agent's, then by id. The first one that matches decides. Two things no rule can do: lift a hard rule, and
 * let a call that cannot be taken back go without a person's approval.
 */
export function createPolicy(rules: readonly PolicyRule[], hard: HardRules, own: readonly PolicyRule[] = []): Policy {
  const ordered = [...rules.map((rule) => ({ rule, origin: 0 })), ...own.map((rule) => ({ rule, origin: 1 }))]
    .filter(({ rule }) => rule.enabled)
    .sort((a, b) => b.rule.priority - a.rule.priority || a.origin - b.origin || compare(a.rule.ruleId, b.rule.ruleId))
    .map(({ rule }) => rule);
  const decideHard = (question: PolicyQuestion) => {
    const reason = hardReason(question.facts ?? {}, hard);
    return reason && ({ action: 'deny', hard: reason, reason: hardText[reason] } as const);
  };
  return {
    isEmpty: ordered.length === 0,
    isAbout: (subject) => ordered.some(({ subjects }) => subjects.includes(subject)),
    decideHard,
    decide(question) {
      const refused = decideHard(question);
      if (refused) return refused;
      const rule = ordered.find((one) => matches(one, question));
      return gated(rule ? verdictOf(rule, question) : { action: 'allow' }, question);
    },
  };
}

function compare(a: string, b: string): number {
  return Number(a > b) - Number(a < b);
}

/** What cannot be taken back goes nowhere on the word of a rule alone. What asks a person already, or denies, stays. */
function gated(verdict: PolicyVerdict, { facts, approved }: PolicyQuestion): PolicyVerdict {
  if (verdict.action !== 'allow' || facts?.commits !== true || approved === true) return verdict;
  return { ...verdict, action: 'request_approval', hard: 'gate_required', reason: hardText.gate_required };
}

function verdictOf(
  { ruleId, action, reason, updatedToolArgs, condition }: PolicyRule,
  question: PolicyQuestion,
): PolicyVerdict {
  const about = { ruleId, reason };
  const isGiven = updatedToolArgs && namesExactly(condition, question);
  const updated = isGiven && { updatedToolArgs: mergedArgs(question.args, updatedToolArgs) };
  switch (action) {
    case 'deny':
    case 'request_user_input':
      return { action, ...about };
    case 'allow':
      return { action, ...about, ...updated };
    case 'defer':
    case 'request_approval':
      return { action: question.approved === true ? 'allow' : action, ...about, ...updated };
    default:
      return assertNever(action);
  }
}

/**
 * The fields of `updates` over those of `args`, one level deep: a field that is an object is replaced as a whole. Only own
 * fields count, `__proto__` is left out, and neither input is changed or shared. Arguments that are no object count as
 * empty.
 */
export function mergedArgs(args: unknown, updates: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const fields = [...Object.entries(fieldsOf(args)), ...Object.entries(structuredClone(updates))];
  return Object.fromEntries(fields.filter(([name]) => name !== '__proto__'));
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : {};
}

function matches({ subjects, action, condition }: PolicyRule, question: PolicyQuestion): boolean {
  if (!subjects.includes(question.subject)) return false;
  const { eventType, subagentName, hasKeys, metadataEquals = {}, contextEquals } = condition;
  if (eventType !== undefined && eventType !== question.eventType) return false;
  if (subagentName !== undefined && subagentName !== question.subagentName) return false;
  if (!namesExactly(condition, question) && (action === 'allow' || !namesLoosely(condition, question))) return false;
  if (hasKeys && !hasKeys.every((key) => ownField(fieldsOf(question.args), key) !== undefined)) return false;
  const isIn = ([key, value]: [string, string]) => ownField(question.metadata, key) === value;
  if (!Object.entries(metadataEquals).every(isIn)) return false;
  return contextEquals === undefined || contextHolds(contextEquals, question);
}

type Named = Pick<PolicyCondition, 'toolName' | 'pattern'>;

/**
 * Are the names of a rule those of this call, source included? A plain name is code of this worker: whatever a rule gives, a
 * permission or arguments, it does not give to a server that calls its tool so.
 */
function namesExactly({ toolName, pattern }: Named, question: PolicyQuestion): boolean {
  const { toolName: plain, sourceNames, subagentName } = question;
  const names = sourceNames ?? [subagentName ?? plain].filter((name) => name !== undefined);
  if (toolName !== undefined && !(sourceNames ?? [plain]).includes(toolName)) return false;
  if (pattern === undefined) return true;
  // `*` would take the source in.
  if (sourceNames && !pattern.startsWith(serverPrefix)) return false;
  return names.some((name) => matchesGlob(pattern, name));
}

/** The same by what a server's tool is called alone: enough for a rule that stops a call. */
function namesLoosely({ toolName, pattern }: Named, { toolName: shown, sourceNames }: PolicyQuestion): boolean {
  if (!sourceNames) return false;
  const names = [shown ?? '', ...sourceNames, ...sourceNames.map((name) => name.slice(name.indexOf('/') + 1))];
  if (toolName !== undefined && !names.includes(toolName)) return false;
  return pattern === undefined || names.some((name) => matchesGlob(pattern, name));
}

/** Names of the context, also where a run has nothing of that name. */
const contextNames: ReadonlySet<string> = new Set(
  'agentId tenant runId threadId sessionId stepNumber spentMicrocents'.split(' '),
);

/**
 * Every field has to be equal. A name of the context is looked up there and nowhere else, every other one among the
 * arguments: so no model can pass for another tenant with an argument of that name. Equal means the same JSON, down to
 * any depth: the same type and value, lists in the same order, objects with the same fields in any order. A field that is
 * nowhere is equal to nothing, not even to null.
 */
function contextHolds(wanted: NonNullable<PolicyCondition['contextEquals']>, { args, context }: PolicyQuestion) {
  return Object.entries(wanted).every(([key, value]) =>
    isEqual(ownField(contextNames.has(key) || Object.hasOwn(context, key) ? context : fieldsOf(args), key), value),
  );
}

function ownField(fields: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(fields, key) ? fields[key] : undefined;
}

/** Deeper than 64 levels nothing is equal. */
function isEqual(a: unknown, b: unknown): boolean {
  if (a === undefined || b === undefined || deeperThan(a, maxLevels) || deeperThan(b, maxLevels)) return false;
  return canonicalJson(a) === canonicalJson(b);
}

/**
 * Does the name match the pattern? `*` stands for any characters, also none, `?` for one; everything else for itself, in
 * its own case. Takes at most (length of the pattern) x (length of the name) steps, whatever the two are.
 */
export function matchesGlob(pattern: string, name: string): boolean {
  const [wanted, given] = [Array.from(pattern), Array.from(name)];
  let [p, n] = [0, 0];
  // Where the last star stands, and how much of the name it has taken so far.
  let [star, taken] = [-1, 0];
  while (n < given.length) {
    // The star comes first: a name may contain one, too.
    if (wanted[p] === '*') [star, taken, p] = [p, n, p + 1];
    else if (p < wanted.length && (wanted[p] === '?' || wanted[p] === given[n])) [p, n] = [p + 1, n + 1];
    else if (star !== -1) {
      taken++;
      [p, n] = [star + 1, taken];
    } else return false;
  }
  while (wanted[p] === '*') p++;
  return p === wanted.length;
}
