import type { PolicyQuestion, PolicyVerdict } from '../../guards/policy.ts';
import type { Batch, RefusedByRule } from './batch.ts';
import { qualifiedNames } from '../names.ts';
import { checkCall, type PreparedCall, type ReadyCall } from './prepare.ts';
import { endByDenial, toolDenied, errorResult, faultOf } from '../tool-error.ts';

type Judged = { readonly kind: 'judged'; readonly call: ReadyCall; readonly verdict: PolicyVerdict } | RefusedByRule;

/**
 * The verdict of the rules about the call, or about the agent behind it, and the call with the arguments that they put in place:
 * the hard rules are asked about those again.
 */
export async function judge(ready: ReadyCall, subagentName: string | undefined, batch: Batch): Promise<Judged> {
  const verdict = verdictOn(ready, subagentName, batch);
  if (verdict.action === 'deny') return denyByRule(ready, verdict, batch);
  const rewritten = await rewrite(ready, verdict, batch);
  if (rewritten.kind === 'refused') return { kind: 'concluded', call: rewritten, result: rewritten.result };
  const refused = rewritten === ready ? undefined : verdictOnRewritten(rewritten, batch);
  if (refused) return denyByRule(rewritten, refused, batch);
  return { kind: 'judged', call: rewritten, verdict };
}

/** Publishes a verdict once. A rule that throws denies the call. */
function verdictOn(ready: ReadyCall, subagentName: string | undefined, batch: Batch): PolicyVerdict {
  const { policy } = batch.context;
  if (!policy) return { action: 'allow' };
  try {
    const question = questionOf(ready, batch);
    const verdict = policy.decide(subagentName === undefined ? question : subagentQuestion(question, subagentName));
    const isNoted = verdict.action !== 'allow' || verdict.ruleId !== undefined;
    const isRepeat = ready.call.ask !== undefined && verdict.action !== 'deny';
    return isNoted && !isRepeat ? publishVerdict(ready, verdict, batch, subagentName) : verdict;
  } catch (thrown) {
    return publishVerdict(ready, notAsked(thrown), batch, subagentName);
  }
}

/** The verdict of the hard rules about arguments that another rule has put in place. */
function verdictOnRewritten(ready: ReadyCall, batch: Batch): PolicyVerdict | undefined {
  try {
    const refused = batch.context.policy?.decideHard(questionOf(ready, batch));
    return refused && publishVerdict(ready, refused, batch);
  } catch (thrown) {
    return publishVerdict(ready, notAsked(thrown), batch);
  }
}

const severity = ['allow', 'request_approval', 'defer', 'request_user_input', 'deny'] as const;

/** What both rules ask for: a call that another agent does is a call and a sub-agent. */
export function stricter(a: PolicyVerdict, b: PolicyVerdict): PolicyVerdict {
  return severity.indexOf(b.action) > severity.indexOf(a.action) ? b : a;
}

/** The agent that would do the call, or continue the conversation. A call that names none is refused later. */
export function agentBehind({ tool, args }: ReadyCall, { host }: Batch): string | undefined {
  if (tool.handoff !== undefined) return tool.handoff;
  try {
    return tool.delegate?.(args, { messages: host.messages }).agentId;
  } catch {
    return undefined;
  }
}

function subagentQuestion(ofCall: PolicyQuestion, subagentName: string): PolicyQuestion {
  const { facts: _facts, ...question } = ofCall;
  return { ...question, subject: 'subagent', eventType: 'subagent.event', subagentName };
}

function notAsked(thrown: unknown): PolicyVerdict {
  return { action: 'deny', reason: `the rules could not be asked: ${faultOf(thrown).message}` };
}

function questionOf({ call, tool, raw, args }: ReadyCall, { context, host }: Batch): PolicyQuestion {
  return {
    subject: subjectOf(tool),
    eventType: 'tool.execute.start',
    toolName: tool.name,
    sourceNames: tool.source && qualifiedNames(tool.source),
    args: raw,
    facts: tool.facts?.(args) ?? {},
    context: { ...context.about, stepNumber: host.step },
    metadata: context.metadata ?? {},
    approved: call.decision?.kind === 'approval' && call.decision.granted,
  };
}

function subjectOf({ asks }: ReadyCall['tool']): PolicyQuestion['subject'] {
  return asks ? 'interaction' : 'tool_call';
}

function publishVerdict({ call, tool }: ReadyCall, verdict: PolicyVerdict, { host }: Batch, subagentName?: string) {
  const { action, ruleId, reason, hard } = verdict;
  const rule = ruleId ?? hard;
  host.emit({
    type: 'policy.decision',
    subject: subagentName === undefined ? subjectOf(tool) : 'subagent',
    action,
    subagentName,
    ruleId: rule,
    reason: reason === undefined ? undefined : host.redactor.text(reason),
    toolCallId: call.id,
    toolName: call.name,
  });
  return verdict;
}

/** The call with the arguments that a rule puts in place of the model's. */
async function rewrite(ready: ReadyCall, { updatedToolArgs }: PolicyVerdict, batch: Batch): Promise<PreparedCall> {
  if (!updatedToolArgs) return ready;
  const { parentToolCallId } = ready;
  const checked = await checkCall(ready.call, ready.tool, updatedToolArgs, batch.preparation);
  return parentToolCallId === undefined ? checked : { ...checked, parentToolCallId };
}

export function denyByRule(ready: ReadyCall, { reason, ruleId, hard }: PolicyVerdict, batch: Batch): RefusedByRule {
  const { name } = ready.call;
  const why = batch.host.redactor.text(reason ?? hard ?? 'a rule denies it');
  const details = { toolName: name, reason: hard ?? 'policy', ruleId };
  const end = endByDenial(batch.context.denials?.policyDenial ?? 'fail', toolDenied(name, why, details));
  if (end) return { kind: 'ends_run', end };
  const result = errorResult({ kind: 'capability_blocked', message: `it was denied: ${why}` }, name);
  return { kind: 'concluded', call: ready, result };
}
