import { assertNever, RunError } from '../../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../../shared/contract/event.ts';
import type { PolicyQuestion, PolicyVerdict } from '../../guards/policy.ts';
import { callSummary, fingerprint } from './args.ts';
import type { Batch } from './batch.ts';
import type { Ask, CallResult } from '../../../shared/contract/journal/call.ts';
import { refusedRepeat } from './conclude.ts';
import { qualifiedNames } from '../names.ts';
import { checkCall, type PreparedCall, type ReadyCall } from './prepare.ts';
import { endByDenial, type RunEnd } from '../run-end.ts';
import { errorResult, faultOf } from '../tool-error.ts';

/**
 * What becomes of a call before it starts. `concluded`: a refusal, or a person's answer, stands in for its result. `fails`:
 * the run ends with this error. What is said of it, `granted` or `denied`, is published by whoever records it.
 */
export type Permission =
  | { readonly kind: 'go'; readonly call: ReadyCall; readonly granted?: EventBody }
  | {
      readonly kind: 'concluded';
      readonly call: PreparedCall;
      readonly result: CallResult;
      readonly denied?: EventBody;
    }
  | { readonly kind: 'ask'; readonly item: PendingItem; readonly ask: Ask; readonly isNew: boolean }
  | { readonly kind: 'ends_run'; readonly end: RunEnd };

type Refused = Extract<Permission, { readonly kind: 'concluded' | 'ends_run' }>;

/** What a call waits for. */
type Gate =
  | {
      readonly kind: 'approval';
      readonly mode: 'approval' | 'deferred';
      readonly reason: string | undefined;
      /** What the model is told where nobody can be asked, when that is more than a denial. */
      readonly unasked?: CallResult;
    }
  | { readonly kind: 'user_input'; readonly question: string };

/** Asks the rules, then people, in this order. Never rejects. */
export async function permit(ready: ReadyCall, batch: Batch): Promise<Permission> {
  const judged = await judge(ready, undefined, batch);
  if (judged.kind !== 'judged') return judged;
  const { call: asked, verdict: ofCall } = judged;
  const subagentName = agentBehind(asked, batch);
  const other = subagentName === undefined ? judged : await judge(asked, subagentName, batch);
  if (other.kind !== 'judged') return other;
  const rewritten = other.call;
  const verdict = stricter(ofCall, other.verdict);
  if (agentBehind(rewritten, batch) !== subagentName) {
    const reason = 'a rule about a sub-agent must not put another one in its place';
    return denyByRule(rewritten, { ...verdict, action: 'deny', reason }, batch);
  }
  const { decision, ask } = ready.call;
  // A person who says that a call in doubt shall be made again has permitted it.
  if (decision && ask?.kind === 'unknown_outcome') return { kind: 'go', call: rewritten };
  if (decision) return decided(rewritten, decision, batch);
  const gate = await gateOf(rewritten, verdict, batch);
  if (!gate && ask?.kind !== 'approval' && ask?.kind !== 'user_input') return { kind: 'go', call: rewritten };
  return askPeople(rewritten, gate ?? { kind: 'approval', mode: 'approval', reason: undefined }, batch);
}

type Judged = { readonly kind: 'judged'; readonly call: ReadyCall; readonly verdict: PolicyVerdict } | Refused;

/**
 * What the rules say about the call, or about the agent behind it, and the call with the arguments that they put in place:
 * the hard rules are asked about those again.
 */
async function judge(ready: ReadyCall, subagentName: string | undefined, batch: Batch): Promise<Judged> {
  const verdict = verdictOn(ready, subagentName, batch);
  if (verdict.action === 'deny') return denyByRule(ready, verdict, batch);
  const rewritten = await rewrite(ready, verdict, batch);
  if (rewritten.kind === 'refused') return { kind: 'concluded', call: rewritten, result: rewritten.result };
  const refused = rewritten === ready ? undefined : verdictOnRewritten(rewritten, batch);
  if (refused) return denyByRule(rewritten, refused, batch);
  return { kind: 'judged', call: rewritten, verdict };
}

/** Told once; a rule that cannot be asked refuses. */
function verdictOn(ready: ReadyCall, subagentName: string | undefined, batch: Batch): PolicyVerdict {
  const { policy } = batch.context;
  if (!policy) return { action: 'allow' };
  try {
    const question = questionOf(ready, batch);
    const verdict = policy.decide(subagentName === undefined ? question : subagentQuestion(question, subagentName));
    const saysSomething = verdict.action !== 'allow' || verdict.ruleId !== undefined;
    const isRepeat = ready.call.ask !== undefined && verdict.action !== 'deny';
    return saysSomething && !isRepeat ? told(ready, verdict, subagentName, batch) : verdict;
  } catch (thrown) {
    return told(ready, notAsked(thrown), subagentName, batch);
  }
}

/** What the hard rules say about arguments that another rule has put in place. */
function verdictOnRewritten(ready: ReadyCall, batch: Batch): PolicyVerdict | undefined {
  try {
    const refused = batch.context.policy?.decideHard(questionOf(ready, batch));
    return refused && told(ready, refused, undefined, batch);
  } catch (thrown) {
    return told(ready, notAsked(thrown), undefined, batch);
  }
}

const severity = ['allow', 'request_approval', 'defer', 'request_user_input', 'deny'] as const;

/** What both rules ask for: a call that another agent does is a call and a sub-agent. */
function stricter(a: PolicyVerdict, b: PolicyVerdict): PolicyVerdict {
  return severity.indexOf(b.action) > severity.indexOf(a.action) ? b : a;
}

/** The agent that would do the call, or take the conversation over. A call that names none is refused later. */
function agentBehind({ tool, args }: ReadyCall, { host }: Batch): string | undefined {
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

function told(
  { call, tool }: ReadyCall,
  verdict: PolicyVerdict,
  subagentName: string | undefined,
  { host }: Batch,
): PolicyVerdict {
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
  return await checkCall(ready.call, ready.tool, updatedToolArgs, batch.preparation);
}

function denyByRule(ready: ReadyCall, { reason, ruleId, hard }: PolicyVerdict, { context, host }: Batch): Refused {
  const { name } = ready.call;
  const why = host.redactor.text(reason ?? hard ?? 'a rule denies it');
  const details = { toolName: name, reason: hard ?? 'policy', ruleId };
  const end = endByDenial(context.denials?.policyDenial ?? 'fail', denied(name, why, details));
  if (end) return { kind: 'ends_run', end };
  const result = errorResult({ kind: 'capability_blocked', message: `it was denied: ${why}` }, name);
  return { kind: 'concluded', call: ready, result };
}

/** What people have to say first. A check that throws asks them. */
async function gateOf(ready: ReadyCall, verdict: PolicyVerdict, batch: Batch): Promise<Gate | undefined> {
  const { tool, call, args } = ready;
  const { action, reason, hard } = verdict;
  if (tool.asks) return { kind: 'user_input', question: askedBy(ready) };
  switch (action) {
    case 'request_user_input':
      return { kind: 'user_input', question: reason ?? `May I call ${callSummary(call.name, ready.shown)}?` };
    case 'defer':
    case 'request_approval': {
      const mode = action === 'defer' ? 'deferred' : 'approval';
      return { kind: 'approval', mode, reason: reason ?? hard };
    }
    case 'allow':
    case 'deny':
      break;
    default:
      return assertNever(action);
  }
  if (batch.unknown.has(fingerprint(call.name, call.args)))
    return {
      kind: 'approval',
      mode: 'approval',
      reason: 'the outcome of an identical call is not known',
      unasked: refusedRepeat(call.name),
    };
  const { runId, tenant } = batch.context;
  const { needsApproval } = tool;
  const needed =
    typeof needsApproval === 'boolean' ? needsApproval : await isNeeded(needsApproval, args, { runId, tenant });
  return needed ? { kind: 'approval', mode: 'approval', reason: undefined } : undefined;
}

async function isNeeded(
  ask: Exclude<ReadyCall['tool']['needsApproval'], boolean>,
  args: unknown,
  call: { readonly runId: string; readonly tenant: string },
): Promise<boolean> {
  try {
    // Whatever is not a clear no asks a person.
    const answer: unknown = await ask(args, call);
    return answer !== false;
  } catch {
    return true;
  }
}

function askedBy({ tool, args }: ReadyCall): string {
  try {
    return tool.asks?.(args) ?? '';
  } catch {
    return `Question of the tool ${tool.name}`;
  }
}

function askPeople(ready: ReadyCall, gate: Gate, batch: Batch): Permission {
  const { context, host } = batch;
  const { call, tool, shown } = ready;
  const { nobody = true, ttlMs = 0, approvers = 1 } = context.people ?? {};
  if (nobody && gate.kind === 'approval' && gate.unasked)
    return { kind: 'concluded', call: ready, result: gate.unasked };
  if (nobody) return refuse(ready, 'nobody can be asked here', batch);
  const now = host.clock.now();
  const known = call.ask && call.ask.kind !== 'unknown_outcome' ? call.ask : undefined;
  if (known?.expiresAtMs !== undefined && known.expiresAtMs <= now) return refuse(ready, 'expired', batch);
  const requestedAtMs = known?.requestedAtMs ?? now;
  const expiresAtMs = known?.expiresAtMs ?? now + ttlMs;
  const id = known?.id ?? batch.newAskId(call);
  const item: PendingItem = {
    kind: gate.kind,
    id,
    toolName: call.name,
    args: shown,
    reason: gate.kind === 'user_input' ? gate.question : gate.reason,
    requestedAt: new Date(requestedAtMs).toISOString(),
    expiresAt: new Date(expiresAtMs).toISOString(),
    mode: gate.kind === 'approval' ? gate.mode : undefined,
    approvers: gate.kind === 'approval' && approvers > 1 ? approvers : undefined,
    classification: { trust: tool.trust, sideEffectClass: tool.sideEffectClass, sensitivity: tool.sensitivity },
  };
  const ask: Ask = { id, kind: gate.kind, index: call.index, requestedAtMs, expiresAtMs };
  return { kind: 'ask', item, ask, isNew: known === undefined };
}

/** What a person said about the call. */
function decided(ready: ReadyCall, decision: NonNullable<ReadyCall['call']['decision']>, batch: Batch): Permission {
  const { id: toolCallId, name: toolName } = ready.call;
  if (decision.kind === 'answer') {
    const content = decision.answer.trim() === '' ? 'The answer is empty.' : decision.answer;
    return { kind: 'concluded', call: ready, result: { content } };
  }
  if (!decision.granted) return refuse(ready, decision.reason ?? 'a person denied it', batch, decision.by);
  const by = decision.by.join(', ');
  // Taken over from a worker that was lost after it had said so, together with the intent.
  if (ready.call.status !== 'todo') return { kind: 'go', call: ready };
  const granted: EventBody = {
    type: 'tool.approval.granted',
    toolCallId,
    toolName,
    by: by || undefined,
    reason: decision.reason,
    edited: decision.updatedArgs ? true : undefined,
  };
  return { kind: 'go', call: ready, granted };
}

/** No: by a person, by the clock, or because there is nobody to ask. */
function refuse(ready: ReadyCall, reason: string, { host, context }: Batch, by: readonly string[] = []): Permission {
  const { id: toolCallId, name: toolName } = ready.call;
  const why = host.redactor.text(reason);
  const who = by.join(', ') || undefined;
  const event: EventBody = { type: 'tool.approval.denied', toolCallId, toolName, reason: why, by: who };
  const error = denied(toolName, why, { toolName, reason: 'approval_denied' });
  const end = endByDenial(context.denials?.approvalDenial ?? 'feed_back', error);
  if (end) {
    host.emit(event);
    return { kind: 'ends_run', end };
  }
  return {
    kind: 'concluded',
    call: ready,
    denied: event,
    result: errorResult({ kind: 'approval_denied', message: `it was not approved: ${why}` }, toolName),
  };
}

function denied(toolName: string, why: string, details: Readonly<Record<string, unknown>>): RunError {
  return new RunError('tool_denied', `the call of tool ${toolName} was denied: ${why}`, { details });
}
