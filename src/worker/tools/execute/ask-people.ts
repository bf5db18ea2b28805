import { assertNever } from '../../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../../shared/contract/event.ts';
import type { PolicyVerdict } from '../../guards/policy.ts';
import type { ToolChange } from '../../../shared/contract/mcp-pins.ts';
import { judgePin, shownChange } from './ask-pin.ts';
import { askedSchema } from './asked-schema.ts';
import { callSummary, fingerprint } from './args.ts';
import type { Batch, Permission } from './batch.ts';
import type { Ask, CallResult } from '../../../shared/contract/journal/turn-state.ts';
import { refusedRepeat } from './conclude.ts';
import type { ReadyCall } from './prepare.ts';
import { blockedByFlow, flowEventOf, inWords, objectionTo, type FlowObjection } from './ask-flow.ts';
import { endByDenial, toolDenied, errorResult } from '../tool-error.ts';
import { agentBehind, denyByRule, judge, stricter } from './ask-rules.ts';

/** Asks the rules, then the data-flow policy, then people. Never rejects. */
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
  const pinned = await judgePin(rewritten, batch);
  if (pinned.kind === 'refused') return { kind: 'concluded', call: rewritten, result: pinned.result };
  const { decision, ask } = pinned.kind === 'ask' ? {} : ready.call;
  // A person who wants a call in doubt repeated has permitted it.
  if (decision && ask?.kind === 'unknown_outcome') return { kind: 'go', call: rewritten };
  const objection = objectionTo(rewritten, batch);
  if (objection?.decision === 'blocked') return blockedByFlow(rewritten, objection, batch);
  const asking = objection?.decision === 'asked' ? objection : undefined;
  if (pinned.kind === 'ask') return askAboutChange(rewritten, pinned.change, asking, batch);
  // A grant is about what the person was shown.
  const isUnseen = asking && ask?.flow !== true && decision?.kind === 'approval' && decision.granted;
  if (decision && !isUnseen) return decided(rewritten, decision, objection, batch);
  const gate = await gateOf(rewritten, verdict, batch);
  const isOpen = ask?.pin === undefined && (ask?.kind === 'approval' || ask?.kind === 'user_input');
  if (!gate && !isOpen && !asking)
    return { kind: 'go', call: rewritten, found: objection && flowEventOf(objection, rewritten, batch) };
  return askForDecision(rewritten, gate ?? { kind: 'approval', mode: 'approval', reason: undefined }, asking, batch);
}

/** What a call waits for. */
type Gate =
  | {
      readonly kind: 'approval';
      readonly mode: 'approval' | 'deferred';
      readonly reason: string | undefined;
      /** The result where no person can be asked, when that is more than a denial. */
      readonly unasked?: CallResult;
      /** What the server of the tool has changed, which is decided with the call. */
      readonly change?: ToolChange;
    }
  | { readonly kind: 'user_input'; readonly question: string };

/** What people have to decide first. A check that throws asks them. */
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
  const ask = async (): Promise<unknown> =>
    typeof needsApproval === 'boolean' ? needsApproval : await needsApproval(args, { runId, tenant });
  // Whatever is not a clear no asks a person.
  const isNeeded = (await ask().catch(() => true)) !== false;
  return isNeeded ? { kind: 'approval', mode: 'approval', reason: undefined } : undefined;
}

function askedBy({ tool, args }: ReadyCall): string {
  try {
    return tool.asks?.(args) ?? '';
  } catch {
    return `Question of the tool ${tool.name}`;
  }
}

function askForDecision(ready: ReadyCall, gate: Gate, objection: FlowObjection | undefined, batch: Batch): Permission {
  const { context, host } = batch;
  const { call, tool, shown } = ready;
  const { isHeadless = true, ttlMs = 0, approvers = 1 } = context.people ?? {};
  if (isHeadless && gate.kind === 'approval' && gate.unasked)
    return { kind: 'concluded', call: ready, result: gate.unasked };
  if (isHeadless) return refuse(ready, 'no person can be asked here', batch);
  const change = gate.kind === 'approval' ? gate.change : undefined;
  const now = host.clock.now();
  // The answer to a question is not what the call would send: with it, no call is made.
  const shownFlow = gate.kind === 'approval' ? objection : undefined;
  const isSame = shownFlow === undefined || call.ask?.flow === true;
  const known = call.ask && call.ask.kind !== 'unknown_outcome' && isSame ? call.ask : undefined;
  if (known && known.expiresAtMs <= now) return refuse(ready, 'expired', batch, { objection });
  const requestedAtMs = known?.requestedAtMs ?? now;
  const expiresAtMs = known?.expiresAtMs ?? now + ttlMs;
  const id = known?.id ?? batch.newAskId(call);
  const item: PendingItem = {
    kind: gate.kind,
    id,
    toolName: call.name,
    args: shown,
    reason:
      gate.kind === 'user_input' ? gate.question : (gate.reason ?? (shownFlow && inWords(shownFlow.findings, ready))),
    requestedAt: new Date(requestedAtMs).toISOString(),
    expiresAt: new Date(expiresAtMs).toISOString(),
    mode: gate.kind === 'approval' ? gate.mode : undefined,
    approvers: gate.kind === 'approval' && approvers > 1 ? approvers : undefined,
    argsSchema: gate.kind === 'approval' ? askedSchema(tool) : undefined,
    toolChange: change && shownChange(change, batch),
    classification: {
      trust: tool.trust,
      sideEffectClass: tool.sideEffectClass,
      sensitivity: tool.sensitivity,
      sandboxPolicy: tool.sandboxPolicy,
    },
    flow: shownFlow && [...shownFlow.findings],
  };
  const flow = shownFlow ? true : known?.flow;
  const ask: Ask = {
    id,
    kind: gate.kind,
    index: call.index,
    requestedAtMs,
    expiresAtMs,
    flow,
    pin: change?.digest ?? known?.pin,
  };
  return {
    kind: 'ask',
    item,
    ask,
    isNew: known === undefined,
    found: shownFlow && flowEventOf(shownFlow, ready, batch),
  };
}

/** A person decides about the call and the change of its tool at once, also where the call was decided before the change. */
function askAboutChange(
  ready: ReadyCall,
  change: ToolChange,
  objection: FlowObjection | undefined,
  batch: Batch,
): Permission {
  const { ask, decision: _, ...call } = ready.call;
  const isKnown = ask?.pin === change.digest;
  const asking = { ...ready, call: isKnown ? { ...call, ask } : call };
  const reason = change.before
    ? 'the server has changed this tool since it was accepted'
    : 'the server did not have this tool when its tools were accepted';
  return askForDecision(asking, { kind: 'approval', mode: 'approval', reason, change }, objection, batch);
}

/** What a person decided about the call. */
function decided(
  ready: ReadyCall,
  decision: NonNullable<ReadyCall['call']['decision']>,
  objection: FlowObjection | undefined,
  batch: Batch,
): Permission {
  const { id: toolCallId, name: toolName } = ready.call;
  if (decision.kind === 'answer') {
    const content = decision.answer.trim() === '' ? 'The answer is empty.' : decision.answer;
    return {
      kind: 'concluded',
      call: ready,
      result: { content },
      denied: notMade(ready, objection, batch, decision.by),
    };
  }
  if (!decision.granted)
    return refuse(ready, decision.reason ?? 'a person denied it', batch, { objection, by: decision.by });
  const by = decision.by.join(', ');
  // Recovered from a worker that was lost after it had published this, together with the intent.
  if (ready.call.status !== 'todo') return { kind: 'go', call: ready };
  const granted: EventBody = {
    type: 'tool.approval.granted',
    toolCallId,
    toolName,
    by: by || undefined,
    reason: decision.reason,
    edited: decision.updatedArgs ? true : undefined,
  };
  const isGranted = objection?.decision === 'asked';
  const found =
    objection &&
    flowEventOf(
      isGranted ? { ...objection, decision: 'declassified' } : objection,
      ready,
      batch,
      isGranted ? decision.by : [],
    );
  return { kind: 'go', call: ready, granted, found };
}

/** No: by a person, by the clock, or because no person can be asked. */
function refuse(
  ready: ReadyCall,
  reason: string,
  batch: Batch,
  { by = [], objection }: { readonly by?: readonly string[]; readonly objection?: FlowObjection | undefined } = {},
): Permission {
  const { host, context } = batch;
  const { id: toolCallId, name: toolName } = ready.call;
  const why = host.redactor.text(reason);
  const who = by.join(', ') || undefined;
  const denial: EventBody = { type: 'tool.approval.denied', toolCallId, toolName, reason: why, by: who };
  const denied = [denial, ...notMade(ready, objection, batch, by)];
  const error = toolDenied(toolName, why, { toolName, reason: 'approval_denied' });
  const end = endByDenial(context.denials?.approvalDenial ?? 'feed_back', error);
  if (end) {
    for (const event of denied) host.emit(event);
    return { kind: 'ends_run', end };
  }
  return {
    kind: 'concluded',
    call: ready,
    denied,
    result: errorResult({ kind: 'approval_denied', message: `it was not approved: ${why}` }, toolName),
  };
}

/** A person, or the end of the time, has kept a call from being made that the data-flow policy had asked about. */
function notMade(
  ready: ReadyCall,
  objection: FlowObjection | undefined,
  batch: Batch,
  by: readonly string[],
): readonly EventBody[] {
  if (objection?.decision !== 'asked' || ready.call.ask?.flow !== true) return [];
  return [flowEventOf({ ...objection, decision: 'blocked' }, ready, batch, by)];
}
