import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { clip } from '../../shared/base/bound-text.ts';
import { assertNever } from '../../shared/base/errors.ts';
import type { PendingItem } from '../../shared/contract/event.ts';
import type { Redactor } from '../../shared/base/redact.ts';
import type { PersonDecision } from '../../shared/contract/journal/call.ts';
import { endByDenial, type RunEnd } from '../tools/run-end.ts';
import { childDenied, childVerdict, insteadOf, type ChildRules, type ChildVerdict } from './child-rules.ts';
import type { AskedChild, ChildAnswer, OrchestrationHost } from './orchestration.ts';

/** What people are asked, as they are shown it. */
export type AskedItem = Omit<PendingItem, 'id' | 'requestedAt'> & { readonly requestedAt?: string };

/** What asking for permission needs of the orchestration's host. Everything is the same in each replay. */
export interface PermitHost extends Pick<OrchestrationHost, 'step' | 'emit' | 'now'> {
  /** Asks people, and answers what they decide. */
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

  #withhold(
    runId: string,
    { agentId }: AskedChild,
    why: string,
    denial: AgentDefinition['approvalDenial'],
  ): ChildAnswer {
    const error = childDenied(agentId, this.#redactor.text(why));
    const end = endByDenial(denial, error);
    if (end) this.#host.end(end);
    const { code, message, retryable } = error;
    return insteadOf(runId, this.#host.now(), { status: 'failed', text: '', error: { code, message, retryable } });
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
