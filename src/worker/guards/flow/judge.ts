import { Redactor } from '../../../shared/base/redact.ts';
import { clip } from '../../../shared/base/text.ts';
import type { ToolEffect } from '../../../shared/contract/agent/agent.ts';
import { serverPrefix } from '../../../shared/contract/agent/mcp.ts';
import {
  flowRule,
  maxFlowFindings,
  type DataFlowPolicy,
  type ShownFlow,
  type ToolFlow,
} from '../../../shared/contract/flow.ts';
import type { FlowSource } from '../../../shared/contract/message.ts';
import { argumentsOf, decodingsIn, type Argument } from './arguments.ts';
import type { FlowMemory, JudgedMemory } from './memory.ts';
import { formOf, unitsIn } from './normalise.ts';
import { isWithin, ruleFor } from './origin.ts';
import { weightBeyondTrust } from './passages.ts';
import { passageFindings } from './sent-text.ts';
import { jsonWithin } from './decode.ts';
import { brings, hostsAbove, saysDestination, valuesOf, type Value } from './values.ts';

/** A call that is about to be made. */
export interface JudgedCall {
  readonly toolName: string;
  /** Every name by which rules mean the tool, `mcp:<server>/<tool>` too. */
  readonly names: readonly string[];
  readonly args: unknown;
  /** Its JSON Schema. */
  readonly parameters: Record<string, unknown>;
  readonly effect: ToolEffect;
}

const maxShownChars = 200;
const maxPathChars = 256;
/** So many characters are always looked at as a whole. */
const neverCut = 512;
const redactor = new Redactor();

/**
 * What stands against the call, the most specific first, each rule once for each argument. Empty: nothing. The same call
 * after the same messages is judged alike everywhere. Never throws.
 *
 * Passages, values and the trifecta are looked at for sinks only; rules of arguments and `afterUntrusted` for every tool that
 * has them. A rule by a plain name is about code of this worker, never about a server's tool of that name.
 */
export function judgeFlow(call: JudgedCall, all: FlowMemory, policy: DataFlowPolicy): readonly ShownFlow[] {
  if (policy.mode === 'off') return [];
  const memory = all.judging(call.names);
  const tool = toolFlowOf(call, policy);
  const isSink = tool?.sink ?? call.effect !== 'read';
  const { sources, sensitivity } = memory.seen;
  const [source] = sources;
  if (!isSink && !tool) return [];
  const given = argumentsOf(call.args, call.parameters);
  const findings = given.all.flatMap((argument) => originFinding(argument, tool, memory));
  if (memory.untrusted.length === 0 && !source) return worstFirst(findings);
  const free = given.all.filter((argument) => !argument.isListed && !isRuled(argument, tool));
  const brought = isSink ? sinkFindings(call, free, memory, policy) : [];
  // A run that knows no more of strangers than what servers say of their tools has read nothing yet.
  if (!source) return worstFirst([...findings, ...brought]);
  return worstFirst([
    ...findings,
    ...brought,
    ...(isSink && given.cut ? [{ rule: 'untrusted-to-sink', source } as const] : []),
    ...(isSink && policy.guardTrifecta && sensitivity === 'secret'
      ? [{ rule: 'lethal-trifecta', source } as const]
      : []),
    ...(tool?.afterUntrusted === false ? [{ rule: 'after-untrusted', source } as const] : []),
  ]);
}

function sinkFindings(
  call: JudgedCall,
  free: readonly Argument[],
  memory: JudgedMemory,
  policy: DataFlowPolicy,
): ShownFlow[] {
  return [
    ...cutFindings(free, memory, policy),
    ...longFindings(free, memory),
    ...passageFindings(call, free, memory, policy.minSpanChars).map(shown),
    ...(policy.trackValues ? free.flatMap((argument) => valueFinding(argument, memory)) : []),
  ];
}

/** A server's tool is meant by its qualified names alone. */
function toolFlowOf({ toolName, names }: JudgedCall, { tools }: DataFlowPolicy): ToolFlow | undefined {
  const qualified = names.filter((name) => name.startsWith(serverPrefix));
  const name = (qualified.length > 0 ? qualified : [toolName, ...names]).find((one) => Object.hasOwn(tools, one));
  return name === undefined ? undefined : tools[name];
}

function originFinding(argument: Argument, tool: ToolFlow | undefined, memory: JudgedMemory): ShownFlow[] {
  const rule = ruleFor(argument, tool);
  if (!rule || argument.isName || isWithin(rule, argument.value, memory)) return [];
  const value = { text: String(argument.value), kind: 'whole' } as const;
  return [shown({ rule: 'argument-origin', argument, source: sourceOf(value, memory) })];
}

/** A rule is about values. What names of fields carry is looked at all the same, unless the rule lets everything pass. */
function isRuled(argument: Argument, tool: ToolFlow | undefined): boolean {
  const rule = ruleFor(argument, tool);
  return rule !== undefined && (!argument.isName || rule.from.includes('any'));
}

/** Where more was read than is followed, no text is known to be free of it. */
function cutFindings(free: readonly Argument[], memory: JudgedMemory, { minSpanChars }: DataFlowPolicy): ShownFlow[] {
  const cut = memory.untrusted.find(({ tracked }) => tracked.form.cut);
  if (!cut) return [];
  return free
    .filter(({ value }) => typeof value === 'string')
    .filter(({ value }) => weightBeyondTrust(unitsIn(String(value)), memory, minSpanChars) >= minSpanChars)
    .map((argument) => shown({ rule: 'untrusted-to-sink', argument, source: cut.source }));
}

/** What is longer, or has more codes in it, than is looked at may carry anything at its end. */
function longFindings(free: readonly Argument[], memory: JudgedMemory): ShownFlow[] {
  const [source] = memory.seen.sources;
  if (!source) return [];
  return free
    .filter(({ value }) => typeof value === 'string' && value.length > neverCut)
    .filter((argument) => formOf(String(argument.value)).cut || decodingsIn(argument).cut)
    .map((argument) => shown({ rule: 'untrusted-to-sink', argument, source }));
}

function valueFinding(argument: Argument, memory: JudgedMemory): ShownFlow[] {
  if (typeof argument.value === 'boolean') return [];
  const values = allValues(argument);
  for (const value of values) {
    const source = sourceOf(value, memory);
    // What was given as a whole was given with everything in it.
    const around = values.filter(({ kind, text }) => kind === 'whole' && text.includes(value.text));
    if (!source || isVouched(value, memory) || around.some((whole) => isVouched(whole, memory))) continue;
    return [shown({ rule: 'untrusted-value', argument, source })];
  }
  return [];
}

/** Also those within a text that is JSON, under their own names. */
function allValues(argument: Argument): readonly Value[] {
  const { value, names } = argument;
  const own = valuesOf(argument, saysDestination(names));
  const json = typeof value === 'string' ? jsonWithin(value) : undefined;
  if (typeof json !== 'object' || json === null) return own;
  const inner = argumentsOf(json, {}).all.flatMap((one) => valuesOf(one, saysDestination([...names, ...one.names])));
  return [...own, ...inner];
}

/** Who brought the value first. Undefined: no untrusted text did. */
function sourceOf(value: Value, memory: JudgedMemory): FlowSource | undefined {
  const forms: readonly Value[] =
    value.kind === 'host' ? hostsAbove(value.text).map((text) => ({ ...value, text })) : [value];
  return memory.untrusted.find(({ tracked }) => forms.some((form) => brings(tracked, form)))?.source;
}

/** A host is vouched for by itself, or by the one above it that the untrusted text named. */
function isVouched(value: Value, memory: JudgedMemory): boolean {
  if (value.kind !== 'host') return memory.vouchesFor(value);
  const named = hostsAbove(value.text).find((text) =>
    memory.untrusted.some(({ tracked }) => brings(tracked, { ...value, text })),
  );
  return memory.vouchesFor(value) || (named !== undefined && memory.vouchesFor({ ...value, text: named }));
}

interface ArgumentFinding {
  readonly rule: ShownFlow['rule'];
  readonly argument: Argument;
  readonly source: FlowSource | undefined;
}

function shown({ rule, argument: { path, value }, source }: ArgumentFinding): ShownFlow {
  const clean = redactor.text(clip(String(value), 4 * maxShownChars));
  return {
    rule,
    argument: path === '' ? undefined : clip(path, maxPathChars),
    value: clip(clean, maxShownChars),
    source,
  };
}

function worstFirst(findings: readonly ShownFlow[]): ShownFlow[] {
  const order = flowRule.options;
  const once = new Map(findings.toReversed().map((finding) => [`${finding.rule} ${finding.argument ?? ''}`, finding]));
  return [...once.values()]
    .toReversed()
    .sort((a, b) => order.indexOf(a.rule) - order.indexOf(b.rule))
    .slice(0, maxFlowFindings);
}
