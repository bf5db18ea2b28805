import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError, errorInfo } from '../../shared/base/errors.ts';
import { publicId } from '../../shared/base/ids.ts';
import { leakReport, type LeakFinding } from '../../shared/contract/agent/lateral-leak.ts';
import { microcents, usage } from '../../shared/contract/money.ts';

/** The fan-out whose answers are merged. */
export interface MergeContext {
  readonly runId: string;
  /** Of the request. */
  readonly input: string;
  /** Aborts when the run is to stop here. */
  readonly signal: AbortSignal;
}

/** Makes one text of the answers of all children, in their order, whatever became of each. */
export interface MergeJudge {
  readonly id: string;
  judge(children: readonly FanOutResultChild[], context: MergeContext): Promise<string> | string;
  /** Looks at that text before it is used. */
  readonly mergeGuard?: MergeGuard;
}

/** The same, with any JSON in place of the text. */
export interface AnswerMerge {
  readonly id: string;
  merge(children: readonly FanOutResultChild[], context: MergeContext): unknown;
}

const judgeBrand = Symbol.for('millrace.judge');
const mergeBrand = Symbol.for('millrace.merge');
const must = z.custom((value) => typeof value === 'function', 'must be a function');

/**
 * Declares a judge by name: the default export of a module in the `judges` folder beside agents. It runs once for each
 * fan-out, and again only when its worker is lost meanwhile. Throws `agent_manifest_invalid` with every problem.
 *
 * @example
 * export default defineJudge({ id: 'longest', judge: (children) => longestOf(children) });
 */
export function defineJudge(judge: MergeJudge): Readonly<MergeJudge> {
  const shape = z.strictObject({ id: publicId, judge: must, mergeGuard: must.optional() });
  return declared('judge', judge, shape, judgeBrand);
}

/** Declares a merge function by name, in the same folder. Throws as `defineJudge` does. */
export function defineMerge(merge: AnswerMerge): Readonly<AnswerMerge> {
  return declared('merge function', merge, z.strictObject({ id: publicId, merge: must }), mergeBrand);
}

/** Was a value made by the function that gives this brand, also by another copy of this package? */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- what a brand stands for is known where it is made
export function madeWith<T>(brand: symbol) {
  return (value: unknown): value is T => typeof value === 'object' && value !== null && brand in value;
}

export const isJudge = madeWith<MergeJudge>(judgeBrand);
export const isMerge = madeWith<AnswerMerge>(mergeBrand);

/** The same object with its brand, frozen. Throws `agent_manifest_invalid` with every problem. */
export function declared<T extends { readonly id: string }>(what: string, given: T, shape: z.ZodType, brand: symbol) {
  const { error } = shape.safeParse(given);
  if (error) throw invalidManifest(what, given?.id, problemsOf(error, what));
  return Object.freeze(Object.defineProperty({ ...given }, brand, { value: true }));
}

/** `what` is the kind of thing that has these problems. */
export function invalidManifest(what: string, id: unknown, problems: readonly string[]): RunError {
  const name = typeof id === 'string' ? id : 'without an id';
  const text = `${what} ${name}:\n  ${problems.join('\n  ')}`;
  return new RunError('agent_manifest_invalid', text, { details: problems });
}

/** `budget_exceeded`: the child passed what `perBudget` gives each, or the budget of its own run. */
export const childStatus = z.enum(['completed', 'failed', 'budget_exceeded', 'cancelled']);
export type ChildStatus = z.infer<typeof childStatus>;

/** How a child ended. `toolCalls` are the calls that its model made; `durationMs` is absent where it was not measured. */
export const childOutcome = z.object({
  status: childStatus,
  output: z.string().optional(),
  error: errorInfo.optional(),
  usage,
  costMicrocents: microcents,
  toolCalls: z.int().min(0),
  durationMs: z.number().min(0).optional(),
  /** What the child has read and was denied, where a guard of its parent watches for it. */
  leaks: leakReport.optional(),
});
export type ChildOutcome = z.infer<typeof childOutcome>;

export interface FanOutResultChild extends ChildOutcome {
  readonly agentId: string;
  readonly id: string;
}

/** What a merge guard is asked: may this text, which a judge made of these children, be used? */
export interface MergeToCheck {
  readonly children: readonly FanOutResultChild[];
  readonly text: string;
}

/** `weights`: the share of each child in the merged text, in their order. `leak`: a finding, which is emitted. */
export type MergeVerdict = { readonly leak?: LeakFinding | undefined } & (
  | { readonly kind: 'pass'; readonly weights?: readonly number[]; readonly flagged?: readonly string[] }
  | { readonly kind: 'block'; readonly reason: string }
);

export type MergeGuard = (merge: MergeToCheck) => MergeVerdict;
