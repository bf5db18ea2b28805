import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { clip } from '../../shared/base/text.ts';
import { assertNever, RunError } from '../../shared/base/errors.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { PersonDecision } from '../../shared/contract/journal/turn-state.ts';
import { endByDenial, type RunEnd } from '../tools/tool-error.ts';
import type { AskedChild, ChildAnswer, OrchestrationHost } from './orchestration.ts';
import { z } from 'zod';
import type { ChildEnd } from '../../shared/contract/control.ts';
import { policyAction } from '../../shared/contract/agent/policy.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { ToolServices } from '../agents/toolkit.ts';
import type { LoadedAgent } from '../agents/loaded-agent.ts';

/** What people are asked, as they are shown it. */
export type AskedItem = Omit<PendingItem, 'id' | 'requestedAt'> & { readonly requestedAt?: string };

/** What asking for permission needs of the orchestration's host. Everything is the same in each replay. */
export interface PermitHost extends Pick<OrchestrationHost, 'step' | 'emit' | 'now'> {
  question(key: string, item: AskedItem): Promise<PersonDecision>;
  /** Answers once it is time, and never where it was dropped before. */
  due(key: string, dueMs: number): Promise<unknown>;
  drop(question: string, due: string): void;
  /** Does the journal have the answer of this step? */
  isKnown(step: string): boolean;
  hasBegun(runId: string): boolean;
  end(end: RunEnd): void;
}

const permitPrefix = 'permit:';
/** Of what people are shown that an agent is to be asked. */
const maxShownChars = 4_000;

/** What a person may put in its place. The agent is named for the reader alone. */
const childArgs = {
  type: 'object',
  properties: { agentId: { type: 'string' }, input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
};

/** Is this the id of a question whether an agent may be asked? */
export function isPermit(id: string): boolean {
  return id.startsWith(permitPrefix);
}

/** Asks the rules, then people, whether an agent may work for an orchestration. */
export class ChildPermits {
  readonly #host: PermitHost;
  readonly #rules: ChildRules | undefined;
  readonly #redactor: Redactor;

  constructor(host: PermitHost, rules: ChildRules | undefined, redactor: Redactor) {
    this.#host = host;
    this.#rules = rules;
    this.#redactor = redactor;
  }

  /** What the agent is asked, or the answer in its place. A run that has begun was permitted when it did. */
  async of(key: string, runId: string, asked: AskedChild): Promise<AskedChild | ChildAnswer> {
    const rules = this.#rules;
    const ruleKey = `rules:${key}`;
    const isMoot = !rules?.isConcerned || this.#host.hasBegun(runId) || asked.signal?.aborted === true;
    if (!rules || (isMoot && !this.#host.isKnown(ruleKey))) return asked;
    const verdict = childVerdict.parse(await this.#host.step(ruleKey, () => rules.decide(asked, false)));
    const { action, ruleId, reason, input = asked.input } = verdict;
    const rewritten = { ...asked, input };
    if (action !== 'allow' || ruleId !== undefined) this.#emitVerdict(asked.agentId, verdict);
    switch (action) {
      case 'allow':
        return rewritten;
      case 'deny':
        return this.#withhold(runId, asked, reason ?? 'a rule denies it', rules.denials.policyDenial);
      case 'defer':
      case 'request_approval':
      case 'request_user_input':
        return await this.#askPeople(key, runId, rewritten, verdict, rules);
      default:
        return assertNever(action);
    }
  }

  async #askPeople(
    key: string,
    runId: string,
    asked: AskedChild,
    { action, reason }: ChildVerdict,
    rules: ChildRules,
  ): Promise<AskedChild | ChildAnswer> {
    const { isHeadless, ttlMs, approvers, denials } = rules;
    const { approvalDenial } = denials;
    if (isHeadless) return this.#withhold(runId, asked, 'no person can be asked here', approvalDenial);
    const { agentId, input, signal } = asked;
    const id = `${permitPrefix}${key}`;
    const due = `expired:${key}`;
    const isQuestion = action === 'request_user_input';
    const why = reason ?? (isQuestion ? `May I ask agent ${agentId}?` : undefined);
    const requestedAtMs = this.#host.now();
    const expired = this.#host.due(due, requestedAtMs + ttlMs).then(() => undefined);
    const stopped = Promise.withResolvers<'stopped'>();
    signal?.addEventListener('abort', () => stopped.resolve('stopped'), { once: true });
    const decision = await Promise.race([
      this.#host.question(id, {
        kind: isQuestion ? 'user_input' : 'approval',
        args: this.#redactor.value({ agentId, input: clip(input, maxShownChars) }) as Record<string, unknown>,
        ...(why !== undefined && { reason: this.#redactor.text(why) }),
        requestedAt: new Date(requestedAtMs).toISOString(),
        expiresAt: new Date(requestedAtMs + ttlMs).toISOString(),
        ...(!isQuestion && { mode: action === 'defer' ? ('deferred' as const) : ('approval' as const) }),
        ...(!isQuestion && { argsSchema: childArgs }),
        ...(!isQuestion && approvers > 1 && { approvers }),
      }),
      expired,
      stopped.promise,
    ]);
    this.#host.drop(id, due);
    // The host of the children answers how one ended that is not wanted any more.
    if (decision === 'stopped') return asked;
    if (decision === undefined) return this.#withhold(runId, asked, 'expired', approvalDenial);
    if (decision.kind === 'answer')
      return insteadOf(runId, this.#host.now(), { status: 'completed', text: decision.answer });
    if (!decision.granted) return this.#withhold(runId, asked, decision.reason ?? 'a person denied it', approvalDenial);
    return await this.#granted(key, runId, asked, decision.updatedArgs, rules);
  }

  /** The rules are asked about what a person has changed, too. */
  async #granted(
    key: string,
    runId: string,
    asked: AskedChild,
    updatedArgs: Readonly<Record<string, unknown>> | undefined,
    rules: ChildRules,
  ): Promise<AskedChild | ChildAnswer> {
    const { input } = updatedArgs ?? {};
    if (typeof input !== 'string' || input === asked.input) return asked;
    const edited = { ...asked, input };
    const verdict = childVerdict.parse(await this.#host.step(`rules:${key}:edited`, () => rules.decide(edited, true)));
    if (verdict.action !== 'deny') return { ...edited, input: verdict.input ?? input };
    this.#emitVerdict(asked.agentId, verdict);
    return this.#withhold(runId, asked, verdict.reason ?? 'a rule denies it', rules.denials.policyDenial);
  }
  #withhold(id: string, { agentId }: AskedChild, why: string, denial: AgentDefinition['approvalDenial']): ChildAnswer {
    const text = `agent ${agentId} was not asked: ${this.#redactor.text(why)}`;
    const error = new RunError('tool_denied', text, { details: { agentId } });
    const end = endByDenial(denial, error);
    if (end) this.#host.end(end);
    const { code, message, retryable } = error;
    return insteadOf(id, this.#host.now(), { status: 'failed', text: '', error: { code, message, retryable } });
  }

  #emitVerdict(subagentName: string, { action, ruleId, reason }: ChildVerdict): void {
    this.#host.emit({
      type: 'policy.decision',
      subject: 'subagent',
      action,
      subagentName,
      ...(ruleId !== undefined && { ruleId }),
      ...(reason !== undefined && { reason: this.#redactor.text(reason) }),
    });
  }
}

/** What the rules decide about an agent that an orchestration asks, as the journal keeps it. */
const childVerdict = z.object({
  action: policyAction,
  ruleId: z.string().optional(),
  reason: z.string().optional(),
  /** What it is asked in place of what the orchestration asks. */
  input: z.string().optional(),
});
type ChildVerdict = z.output<typeof childVerdict>;

/** The rules about sub-agents, as an orchestration needs them. */
export interface ChildRules {
  readonly isConcerned: boolean;
  /** `approved`: a person has granted it. A rule that cannot be asked denies. */
  decide(asked: AskedChild, approved: boolean): ChildVerdict;
  /** No person can be asked, so that whatever needs a person is denied. */
  readonly isHeadless: boolean;
  /** How long people have, in milliseconds. */
  readonly ttlMs: number;
  readonly approvers: number;
  readonly denials: Pick<AgentDefinition, 'policyDenial' | 'approvalDenial'>;
}

/** Those of the run's agent and of the operator. */
export function childRulesOf(agent: LoadedAgent, record: RunRecord, policyOf: ToolServices['policyOf']): ChildRules {
  const policy = policyOf?.(agent.definition);
  const { id, interaction, approvals, policyDenial, approvalDenial } = agent.definition;
  const { runId, tenant, request } = record;
  const { thread: threadId, sessionId, metadata = {} } = request;
  const context = { agentId: id, tenant, runId, ...(threadId && { threadId }), ...(sessionId && { sessionId }) };
  return {
    isConcerned: policy?.isAbout('subagent') ?? false,
    decide({ agentId: subagentName, input }, approved) {
      if (!policy) return { action: 'allow' };
      try {
        const about = { subject: 'subagent', eventType: 'subagent.event', subagentName, context, metadata } as const;
        const verdict = policy.decide({ ...about, args: { input }, approved });
        const { input: rewritten } = verdict.updatedToolArgs ?? {};
        return childVerdict.parse({ ...verdict, ...(rewritten !== input && { input: rewritten }) });
      } catch {
        return { action: 'deny', reason: 'the rules could not be asked' };
      }
    },
    isHeadless: interaction === 'headless',
    ...approvals,
    denials: { policyDenial, approvalDenial },
  };
}

/** The answer in place of one that the run gives: it did not begin. */
function insteadOf(runId: string, nowMs: number, end: Pick<ChildEnd, 'status' | 'text' | 'error'>): ChildAnswer {
  const at = new Date(nowMs).toISOString();
  return { kind: 'ended', runId, end: { kind: 'child', id: runId, costMicrocents: 0, steps: 0, at, ...end } };
}
