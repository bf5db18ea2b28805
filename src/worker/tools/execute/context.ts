import type { AgentDefinition, ToolOptions } from '../../../shared/contract/agent/agent.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { Policy } from '../../guards/policy.ts';
import type { Breakers } from '../../../shared/state/limits/breakers.ts';
import type { ResultOrigin } from '../tool.ts';

/** Keeps results that are too large for a model, under a name of this run. */
export interface Spill {
  /** Answers the handle that reads it back. Rejects when it cannot be kept. */
  put(body: string, of: ResultOrigin): Promise<string>;
}

/** What the executor knows of the run around the turn. What is absent is not asked for, or not there. */
export interface ToolRunContext {
  readonly runId: string;
  readonly tenant: string;
  /** Of the agent and the run, for rules. */
  readonly about?: Readonly<Record<string, unknown>> | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** The idempotency key of a call: stable over retries, workers and crashes. */
  keyFor(step: number, index: number): string;
  /** The run that does the call at this place of the run. Absent: no run works for others here. */
  readonly childIdFor?: ((step: number, index: number) => string) | undefined;
  /** How many runs and handoffs lie between the first run and this one. */
  readonly depth?: number | undefined;
  /** Is there an agent of this id to hand over to? */
  readonly hasAgent?: ((agentId: string) => boolean) | undefined;
  /** The tool secrets that this run may use. Absent: those that its tools may ask for. */
  readonly secretsAllowed?: readonly string[] | undefined;
  /** By name of the tool: the agent's settings, which replace those of the tool. */
  readonly options?: Readonly<Record<string, ToolOptions>> | undefined;
  readonly policy?: Policy | undefined;
  /** `isHeadless`: no person can be asked, so every call that needs one is denied. */
  readonly people?: { readonly isHeadless: boolean; readonly ttlMs: number; readonly approvers: number } | undefined;
  /** What a denial by a rule, or by a person, does. Default: the run fails by a rule, and a person's denial goes to the model. */
  readonly denials?: Pick<AgentDefinition, 'policyDenial' | 'approvalDenial'> | undefined;
  readonly secrets?: { get(name: string): string | undefined; values(): readonly string[] } | undefined;
  readonly spill?: Spill | undefined;
  readonly workspaceDir?: string | undefined;
  readonly directories?: readonly string[] | undefined;
  readonly log?: Log | undefined;
  readonly breakers?: Pick<Breakers, 'admit' | 'report'> | undefined;
}
