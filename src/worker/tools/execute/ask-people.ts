import { assertNever } from '../../../shared/base/errors.ts';
import type { EventBody, PendingItem } from '../../../shared/contract/event.ts';
import type { PolicyVerdict } from '../../guards/policy.ts';
import { askedSchema } from './asked-schema.ts';
import { callSummary, fingerprint } from './args.ts';
import type { Batch, Permission } from './batch.ts';
import type { Ask, CallResult } from '../../../shared/contract/journal/turn-state.ts';
import { refusedRepeat } from './conclude.ts';
import type { ReadyCall } from './prepare.ts';
import { endByDenial, toolDenied, errorResult } from '../tool-error.ts';
import { agentBehind, denyByRule, judge, stricter } from './ask-rules.ts';

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
  // A person who wants a call in doubt repeated has permitted it.
  if (decision && ask?.kind === 'unknown_outcome') return { kind: 'go', call: rewritten };
  if (decision) return decided(rewritten, decision, batch);
  const gate = await gateOf(rewritten, verdict, batch);
  if (!gate && ask?.kind !== 'approval' && ask?.kind !== 'user_input') return { kind: 'go', call: rewritten };
  return askForDecision(rewritten, gate ?? { kind: 'approval', mode: 'approval', reason: undefined }, batch);
}

/** What a call waits for. */
type Gate =
  | {
      readonly kind: 'approval';
      readonly mode: 'approval' | 'deferred';
      readonly reason: string | undefined;
      /** The result where no person can be asked, when that is more than a denial. */
      readonly unasked?: CallResult;
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

function askForDecision(ready: ReadyCall, gate: Gate, batch: Batch): Permission {
  const { context, host } = batch;
  const { call, tool, shown } = ready;
  const { isHeadless = true, ttlMs = 0, approvers = 1 } = context.people ?? {};
  if (isHeadless && gate.kind === 'approval' && gate.unasked)
    return { kind: 'concluded', call: ready, result: gate.unasked };
  if (isHeadless) return refuse(ready, 'no person can be asked here', batch);
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
    argsSchema: gate.kind === 'approval' ? askedSchema(tool) : undefined,
    classification: {
      trust: tool.trust,
      sideEffectClass: tool.sideEffectClass,
      sensitivity: tool.sensitivity,
      sandboxPolicy: tool.sandboxPolicy,
    },
  };
  const ask: Ask = { id, kind: gate.kind, index: call.index, requestedAtMs, expiresAtMs };
  return { kind: 'ask', item, ask, isNew: known === undefined };
}

/** What a person decided about the call. */
function decided(ready: ReadyCall, decision: NonNullable<ReadyCall['call']['decision']>, batch: Batch): Permission {
  const { id: toolCallId, name: toolName } = ready.call;
  if (decision.kind === 'answer') {
    const content = decision.answer.trim() === '' ? 'The answer is empty.' : decision.answer;
    return { kind: 'concluded', call: ready, result: { content } };
  }
  if (!decision.granted) return refuse(ready, decision.reason ?? 'a person denied it', batch, decision.by);
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
  return { kind: 'go', call: ready, granted };
}

/** No: by a person, by the clock, or because no person can be asked. */
function refuse(ready: ReadyCall, reason: string, { host, context }: Batch, by: readonly string[] = []): Permission {
  const { id: toolCallId, name: toolName } = ready.call;
  const why = host.redactor.text(reason);
  const who = by.join(', ') || undefined;
  const event: EventBody = { type: 'tool.approval.denied', toolCallId, toolName, reason: why, by: who };
  const error = toolDenied(toolName, why, { toolName, reason: 'approval_denied' });
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
