import { assertNever } from '../../../shared/base/errors.ts';
import { isRecord } from '../../../shared/base/json.ts';
import type { EventBody } from '../../../shared/contract/event.ts';
import type { DataFlowPolicy, FlowDecision, FlowFinding, ShownFlow } from '../../../shared/contract/flow.ts';
import type { StepCall } from '../../../shared/contract/journal/turn-state.ts';
import { editedValues } from '../../../shared/contract/journal/edited-values.ts';
import { namedPath } from '../../guards/flow/named-path.ts';
import { judgeFlow } from '../../guards/flow/judge.ts';
import type { FlowMemory } from '../../guards/flow/memory.ts';
import { errorResult } from '../tool-error.ts';
import type { Tool } from '../tool.ts';
import { parseArgs } from './args.ts';
import type { Batch, Permission } from './batch.ts';
import { flowNamesOf, isJudged, isSink, type FlowStep, type FlowTrail } from './flow-trail.ts';
import type { ReadyCall } from './prepare.ts';
import { readsOf } from './script-reads.ts';

/** What the data-flow policy has against a call. */
export interface FlowObjection {
  /** `asked`: a person has to decide. `flagged` and `declassified`: the call runs all the same. */
  readonly decision: FlowDecision;
  /** With the values, redacted, for the person who decides. */
  readonly findings: readonly ShownFlow[];
}

/**
 * What the policy has against the call, with the arguments that it would run with. A call whose intent is in the journal was
 * judged before.
 */
export function objectionTo(ready: ReadyCall, batch: Batch): FlowObjection | undefined {
  const { flow, host, context } = batch;
  const { tool, call } = ready;
  if (!flow || call.status !== 'todo' || !isJudged(tool, flow.policy)) return undefined;
  const reads = ready.parentToolCallId === undefined ? undefined : readsOf(call.index, batch);
  const memory = reads ? reads.memory(batch) : flow.before(call, batch);
  const found = findingsOn(tool, modelsOwn(ready), memory, flow.policy);
  // At once: a call that the script makes beside this one must know of it.
  reads?.send(call, batch);
  if (found.length === 0) return undefined;
  const findings = found.map((one) =>
    one.value === undefined ? one : { ...one, value: host.redactor.text(one.value) },
  );
  const isDeclassified = flow.policy.declassifySinks.some((name) => flowNamesOf(tool).includes(name));
  if (isDeclassified) return { decision: 'declassified', findings };
  return { decision: decisionIn(flow.policy.mode, context.people?.isHeadless ?? true), findings };
}

/**
 * Has the policy nothing against a call whose step has not begun? Asked in the order of the calls, about those to which no rule
 * puts arguments.
 */
export function isClean(
  call: StepCall,
  tool: Tool,
  { flow, step }: { readonly flow: FlowTrail; readonly step: FlowStep },
): boolean {
  return findingsOn(tool, asked(call), flow.before(call, step), flow.policy).length === 0;
}

/** The arguments as the model wrote them, in the form in which a tool gets them. */
function asked({ args }: StepCall): Readonly<Record<string, unknown>> {
  const parsed = parseArgs(args);
  return parsed.kind === 'parsed' && isRecord(parsed.value) ? parsed.value : {};
}

function findingsOn(tool: Tool, args: unknown, memory: FlowMemory, policy: DataFlowPolicy): readonly ShownFlow[] {
  const names = flowNamesOf(tool);
  const [toolName = tool.name] = names;
  const effect = isSink(tool, policy) ? tool.effect : 'read';
  return judgeFlow({ toolName, names, args, parameters: tool.parameters, effect }, memory, policy);
}

function decisionIn(mode: NonNullable<Batch['flow']>['policy']['mode'], isHeadless: boolean): FlowDecision {
  switch (mode) {
    case 'off':
    case 'shadow':
      return 'flagged';
    case 'confirm':
      return isHeadless ? 'blocked' : 'asked';
    case 'enforce':
      return 'blocked';
    default:
      return assertNever(mode);
  }
}

/**
 * The arguments without what a rule has put into them, which is the operator's or the author's. What a person has put in counts as
 * trusted text instead: see `TurnState.edits`.
 */
function modelsOwn({ call, raw }: ReadyCall): unknown {
  const put = new Set(editedValues(raw, asked(call)));
  return put.size === 0 ? raw : without(raw, put);
}

function without(value: unknown, left: ReadonlySet<string>): unknown {
  const isKept = (item: unknown) => !((typeof item === 'string' || typeof item === 'number') && left.has(String(item)));
  if (Array.isArray(value)) return value.filter(isKept).map((item) => without(item, left));
  if (!isRecord(value)) return value;
  const kept = Object.entries(value).filter(([, item]) => isKept(item));
  return Object.fromEntries(kept.map(([name, item]) => [name, without(item, left)]));
}

const eventTypes = {
  flagged: 'dataflow.flagged',
  asked: 'dataflow.asked',
  blocked: 'dataflow.blocked',
  declassified: 'dataflow.declassified',
} as const satisfies Record<FlowDecision, EventBody['type']>;

/** The event of what became of the call. `by`: who decided. */
export function flowEventOf(
  { decision, findings }: FlowObjection,
  { call, tool, parentToolCallId }: ReadyCall,
  { flow }: Batch,
  by: readonly string[] = [],
): EventBody {
  const withoutContent = findings.map(({ rule, argument, source }) => ({
    rule,
    argument: argument === undefined || !flow ? undefined : namedPath(argument, tool.parameters, flow.policy),
    source,
  }));
  return {
    type: eventTypes[decision],
    toolCallId: call.id,
    toolName: call.name,
    rule: findings[0]?.rule ?? 'untrusted-to-sink',
    mode: flow?.policy.mode ?? 'off',
    findings: withoutContent,
    parentToolCallId,
    by: by.join(', ') || undefined,
  };
}

/** The answer to a call that the policy stops. */
export function blockedByFlow(ready: ReadyCall, objection: FlowObjection, batch: Batch): Permission {
  const message = `the data-flow policy stopped it, and it was not made: ${inWords(objection.findings, ready)}`;
  const result = errorResult({ kind: 'dataflow_policy_blocked', message }, ready.call.name);
  const { id: toolCallId, name: toolName } = ready.call;
  const rules = [...new Set(objection.findings.map(({ rule }) => rule))];
  batch.context.log?.warn({ toolCallId, toolName, rules }, 'the data-flow policy stopped a call');
  return { kind: 'concluded', call: ready, result, denied: [flowEventOf(objection, ready, batch)] };
}

/** For the model and for people. Names rules, arguments and sources, and no value. */
export function inWords(findings: readonly FlowFinding[], { call }: Pick<ReadyCall, 'call'>): string {
  const texts = findings.map((finding) => `${textOf(finding, call.name)} (${finding.rule})`);
  return [...new Set(texts)].join('; ');
}

function textOf({ rule, argument, source }: FlowFinding, toolName: string): string {
  const what = argument === undefined ? 'an argument' : `its argument ${argument}`;
  const from = source === undefined ? 'an untrusted source' : source.name;
  switch (rule) {
    case 'untrusted-to-sink':
      return `${what} repeats a passage of what ${from} brought`;
    case 'untrusted-value':
      return `${what} is a value that ${from} brought, and neither the user nor a trusted source`;
    case 'argument-origin':
      return `${what} does not come from where the agent's dataFlowPolicy wants it from`;
    case 'after-untrusted':
      return `${toolName} must not be called after ${from} was read`;
    case 'lethal-trifecta':
      return `the run has read secret data, and untrusted text from ${from}`;
    default:
      return assertNever(rule);
  }
}
