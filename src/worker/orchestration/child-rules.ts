import { z } from 'zod';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import type { ChildEnd } from '../../shared/contract/control.ts';
import { RunError } from '../../shared/base/errors.ts';
import { policyAction } from '../../shared/contract/agent/policy.ts';
import type { RunRecord } from '../../shared/contract/run.ts';
import type { ToolServices } from '../agents/toolkit.ts';
import type { LoadedAgent } from '../agents/load-agents.ts';
import type { AskedChild, ChildAnswer } from './orchestration.ts';

/** What the rules decide about an agent that an orchestration asks, as the journal keeps it. */
export const childVerdict = z.object({
  action: policyAction,
  ruleId: z.string().optional(),
  reason: z.string().optional(),
  /** What it is asked in place of what the orchestration asks. */
  input: z.string().optional(),
});
export type ChildVerdict = z.output<typeof childVerdict>;

/** The rules about sub-agents, as an orchestration needs them. */
export interface ChildRules {
  /** Is there any rule about sub-agents? */
  readonly isConcerned: boolean;
  /** `approved`: a person has granted it. A rule that cannot be asked denies. */
  decide(asked: AskedChild, approved: boolean): ChildVerdict;
  /** Nobody can be asked, so that whatever needs a person is denied. */
  readonly isHeadless: boolean;
  /** How long people have, in milliseconds. */
  readonly ttlMs: number;
  readonly approvers: number;
  /** What a denial by a rule, or by a person, does. */
  readonly denials: Pick<AgentDefinition, 'policyDenial' | 'approvalDenial'>;
}

/** Those of the run's agent and of the operator. */
export function childRulesOf(
  { definition }: LoadedAgent,
  record: RunRecord,
  policyOf: ToolServices['policyOf'],
): ChildRules {
  const policy = policyOf?.(definition);
  const { id, interaction, approvals, policyDenial, approvalDenial } = definition;
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

/** The error of an agent that was not asked. */
export function childDenied(agentId: string, reason: string): RunError {
  return new RunError('tool_denied', `agent ${agentId} was not asked: ${reason}`, { details: { agentId } });
}

/** The answer in place of one that the run gives: it did not begin. */
export function insteadOf(runId: string, nowMs: number, end: Pick<ChildEnd, 'status' | 'text' | 'error'>): ChildAnswer {
  const at = new Date(nowMs).toISOString();
  return { kind: 'ended', runId, end: { kind: 'child', id: runId, costMicrocents: 0, steps: 0, at, ...end } };
}
