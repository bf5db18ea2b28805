import type { AgentDefinition, ToolOptions } from '../../../shared/contract/agent/agent.ts';
import type { Denial, ProtocolMode } from '../../../shared/contract/agent/lateral-leak.ts';
import type { Crossed } from '../../guards/leaks/causality.ts';
import type { Clock } from '../../../shared/base/clock.ts';
import type { DataFlowPolicy } from '../../../shared/contract/flow.ts';
import type { EventBody, PendingItem } from '../../../shared/contract/event.ts';
import type { JournalEntry } from '../../../shared/contract/journal/journal.ts';
import type { Message } from '../../../shared/contract/message.ts';
import type { Redactor } from '../../../shared/base/redact.ts';
import type { PlannedChild, ResultOrigin } from '../tool.ts';
import type { Ask, CallResult, StepCall, UnknownCall } from '../../../shared/contract/journal/turn-state.ts';
import type { Preparation, PreparedCall, ReadyCall } from './prepare.ts';
import type { RunEnd } from '../tool-error.ts';
import type { StepResults } from './step-results.ts';
import type { FlowPast, FlowTrail } from './flow-trail.ts';
import type { ScriptReads } from './script-reads.ts';
import type { Log } from '../../../shared/base/log.ts';
import type { Policy } from '../../guards/policy.ts';
import type { Breakers } from '../../../shared/state/limits/breakers.ts';

/** Keeps results that are too large for a model, under a name of this run. */
export interface Spill {
  /** Answers the handle that reads it back. Rejects when it cannot be kept. */
  put(body: string, of: ResultOrigin): Promise<string>;
}

/** Looks at the texts that cross between this agent and others, given what was denied before. */
export interface CrossingWatch {
  to(agentId: string, text: string, denials: readonly Denial[]): Crossed;
  back(text: string, denials: readonly Denial[]): Crossed;
  handoff(agentId: string, text: string, denials: readonly Denial[]): Crossed;
}

/** What the executor knows of the run around the turn. What is absent is not asked for, or not there. */
export interface ToolRunContext {
  readonly runId: string;
  readonly tenant: string;
  /** Of the agent and the run, for rules. */
  readonly about?: Readonly<Record<string, unknown>> | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Of the workflow that the run is a node of. */
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
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
  /** As it holds here, with the operator's own. Absent: it is off, and nothing is followed. */
  readonly flow?: DataFlowPolicy | undefined;
  /** Absent: nothing that crosses to other agents is looked at. */
  readonly crossings?: CrossingWatch | undefined;
  /** Something wants to know what was denied to the calls of a script. */
  readonly notesDenials?: boolean | undefined;
  /** What becomes of control characters in results. Absent: they stay. */
  readonly protocol?: Exclude<ProtocolMode, 'off'> | undefined;
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

/** What the executor asks of the turn that it works for. */
export interface ToolHost {
  readonly step: number;
  /** Of the model call that asked for the calls. Absent: it is not known any more. */
  readonly attemptNumber?: number | undefined;
  readonly maxParallel: number;
  /** How many calls of a step other agents do. */
  readonly maxDelegated: number;
  /** Calls of this run whose outcome is not known: an identical one needs a person's approval. */
  readonly unknownCalls: readonly UnknownCall[];
  /** What was denied to the run so far, and what of it the model of this step knew. Absent: nothing. */
  readonly denials?: readonly Denial[];
  readonly knownDenials?: readonly Denial[];
  /** The conversation so far. */
  readonly messages: readonly Message[];
  /** All that the run has read. */
  readonly past: FlowPast;
  /** Deferred tools that the model has found. */
  readonly promoted: readonly string[];
  /** Tools that the model may not call for the rest of the turn. */
  readonly withdrawn: readonly string[];
  /** What people were asked in this run, by id. */
  readonly asked: ReadonlySet<string>;
  readonly clock: Clock;
  readonly redactor: Redactor;
  emit(event: EventBody): void;
  /** Durable when it resolves: the entries and their events, all of it or nothing. */
  record(entries: readonly JournalEntry[], events?: readonly EventBody[]): Promise<void>;
}

/** One step's calls on their way. */
export interface Batch {
  readonly context: ToolRunContext;
  readonly host: ToolHost;
  readonly preparation: Preparation;
  /** Aborted from outside, and when a result cannot be recorded. */
  readonly signal: AbortSignal;
  readonly results: StepResults;
  /** Fingerprints of the calls whose outcome is not known; grows while the step runs. */
  readonly unknown: Set<string>;
  /** What people have to settle before the step can go on, and what is new about it. */
  readonly asks: Pick<Extract<Permission, { readonly kind: 'ask' }>, 'item' | 'ask' | 'isNew' | 'found'>[];
  /** All calls of the step, also those that have ended. */
  readonly calls: readonly StepCall[];
  /** Calls that other runs do, and those runs. */
  readonly children: PlannedChild[];
  /** Absent: no data-flow policy is on. */
  readonly flow: FlowTrail | undefined;
  /** By place of a script's call: what it has read. */
  readonly scripts: Map<number, ScriptReads>;
  /** By place of a script's call: what was denied to it. */
  readonly denied: Map<number, readonly Denial[]>;
  /** By place of a script's call: the tools that it could not call without a person. The model may call them itself. */
  readonly needPeople: Map<number, Set<string>>;
  /** What people have granted, until it is published with the intents of these calls. */
  readonly grants: EventBody[];
  /** By place of a call that runs: what the data-flow policy has found, until it is published with its intent. */
  readonly found: Map<number, EventBody>;
  /** What is published in the write by which the step begins to wait. */
  readonly onWait: EventBody[];
  /** What ends the run, the first one first. */
  readonly fatal: RunEnd[];
  /** A name for what people are asked about this call that the run has not used yet. */
  newAskId(call: StepCall): string;
}

/**
 * How a call ended. Only a result goes to the journal: `unknown` is settled by the tool's own policy, and an `aborted`
 * call may still be run by the worker that continues.
 */
export type CallEnding =
  | { readonly kind: 'result'; readonly result: CallResult }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'aborted' };

/**
 * What becomes of a call before it starts. `concluded`: a refusal, or a person's answer, stands in for its result. `ends_run`:
 * the run ends so. The events, `granted`, `denied` and what the data-flow policy has `found`, are published by the caller that records it.
 */
export type Permission =
  | {
      readonly kind: 'go';
      readonly call: ReadyCall;
      readonly granted?: EventBody;
      readonly found?: EventBody | undefined;
    }
  | {
      readonly kind: 'concluded';
      readonly call: PreparedCall;
      readonly result: CallResult;
      readonly denied?: readonly EventBody[];
    }
  | {
      readonly kind: 'ask';
      readonly item: PendingItem;
      readonly ask: Ask;
      readonly isNew: boolean;
      readonly found?: EventBody | undefined;
    }
  | { readonly kind: 'ends_run'; readonly end: RunEnd };

/** A call that a rule has refused. */
export type RefusedByRule = Extract<Permission, { readonly kind: 'concluded' | 'ends_run' }>;
