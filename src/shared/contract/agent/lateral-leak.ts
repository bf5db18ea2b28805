import { z } from 'zod';
import type { ErrorCode, ToolErrorKind } from '../../base/errors.ts';
import { trustClass } from './trust.ts';

/**
 * What a guard does about a finding. `detect`: the event only. `detect-and-flag`: the text also carries a mark. `detect-and-block`:
 * the text goes no further.
 */
export const leakStrictness = z.enum(['off', 'detect', 'detect-and-flag', 'detect-and-block']);
export type LeakStrictness = z.infer<typeof leakStrictness>;

/** Watches that no agent passes on what it learned from a denial. */
export const causalityMonitor = z.strictObject({
  strictness: leakStrictness,
  /**
   * Further texts that speak of a denial, beside those that are built in. Compared as whole words, without case, accents and
   * look-alike letters; none of them is a regular expression.
   */
  denialPatterns: z.array(z.string().trim().min(4).max(128)).max(32).default([]),
});
export type CausalityMonitor = Readonly<z.output<typeof causalityMonitor>>;

/** Watches that a child of little trust does not make up most of what a judge merges. */
export const mergeGuard = z.strictObject({ strictness: leakStrictness });

/** What becomes of control characters, and of breaks of an SSE frame, in results of tools and answers of models. */
export const protocolMode = z.enum(['off', 'escape', 'replace', 'reject']);
export type ProtocolMode = z.infer<typeof protocolMode>;
export const protocolGuard = z.strictObject({ mode: protocolMode });

/** How a denial came about. `capability`: a right that the call did not have, `run`: a denial ended the whole run. */
const denialKind = z.enum(['person', 'capability', 'dataflow', 'run']);

/** Something that was denied to an agent. Names no content and no arguments. */
export const denial = z.object({
  agentId: z.string().max(128),
  kind: denialKind,
  /** Absent where the run as a whole was denied. */
  toolName: z.string().max(256).optional(),
});
export type Denial = Readonly<z.infer<typeof denial>>;

export const maxDenials = 32;
const denials = z.array(denial).max(maxDenials);

/** What the guards of its parents ask of a run. */
export const leakWatch = z.object({
  /** Of all parents together: a run may watch more, never less. Absent: none of them watches. */
  causality: causalityMonitor.optional(),
  /** What was denied in the runs before it. */
  denials,
});
export type LeakWatch = Readonly<z.infer<typeof leakWatch>>;

/** What a watched run reports to its parent at its end. */
export const leakReport = z.object({
  /** What was denied to it and to those that worked for it. */
  denials,
  /** The classes of the texts that it has read. */
  origins: z.array(trustClass).max(trustClass.options.length),
});
export type LeakReport = Readonly<z.infer<typeof leakReport>>;

const denyingKinds: Partial<Record<ToolErrorKind, Denial['kind']>> = {
  approval_denied: 'person',
  capability_blocked: 'capability',
  sandbox_violation: 'capability',
  dataflow_policy_blocked: 'dataflow',
};

/** The kind of denial that an error of a tool stands for; undefined for every other error. */
export function denialBy(kind: ToolErrorKind | undefined): Denial['kind'] | undefined {
  return kind && denyingKinds[kind];
}

const denyingCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['tool_denied', 'policy_denied', 'guardrail_blocked']);

/** Did a denial end a run with this error? */
export function endedByDenial(code: ErrorCode | undefined): boolean {
  return code !== undefined && denyingCodes.has(code);
}

/**
 * The denials with more of them, each once, oldest first. At most 32: the latest stay, so a chain that has had a denial is never
 * without one.
 */
export function withDenials(chain: readonly Denial[], more: readonly Denial[]): readonly Denial[] {
  if (more.length === 0) return chain;
  const latest = new Map<string, Denial>();
  for (const one of [...chain, ...more]) {
    const key = [one.kind, one.agentId, one.toolName ?? ''].join('\0');
    latest.delete(key);
    latest.set(key, one);
  }
  return [...latest.values()].slice(-maxDenials);
}

/**
 * Where a finding was made.
 *
 * - child-input, child-answer: what an agent asks another one, and what that one answers
 * - handoff: the conversation that the next agent gets
 * - merge: what a judge made of the answers of a fan-out
 * - protocol: a result of a tool, or an answer of a model
 */
export const leakVector = z.enum(['child-input', 'child-answer', 'handoff', 'merge', 'protocol']);
export const leakSeverity = z.enum(['low', 'medium', 'high']);
export const leakDecision = z.enum(['detected', 'flagged', 'blocked', 'escaped', 'replaced', 'rejected']);
export type LeakDecision = z.infer<typeof leakDecision>;

/** The body of `agent.lateral-leak.detected`, and of its entry in the audit stream. */
export const lateralLeakFinding = {
  vector: leakVector,
  severity: leakSeverity,
  decision: leakDecision,
  /** Of the text as it was found, so that those who have it recognise it. The text itself is in no event. */
  contentSha256: z.string().length(64),
};
const leakFinding = z.object(lateralLeakFinding);
export type LeakFinding = Readonly<z.infer<typeof leakFinding>>;
