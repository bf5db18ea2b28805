import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError, assertNever } from '../../shared/base/errors.ts';
import { trustClass, type TrustClass } from '../../shared/contract/agent/trust.ts';
import type { Usage } from '../../shared/contract/money.ts';
import type { RunOutcomeView } from '../../shared/contract/run.ts';
import { longestMs } from './orchestration.ts';
import type { ChildOutcome, FanOutResultChild } from '../agents/define-judge.ts';

export const maxChildren = 256;
const defaultSeparator = '\n\n---\n\n';

export interface Spent {
  readonly usage: Usage;
  readonly costMicrocents: number;
  readonly toolCalls: number;
}

/** One agent of a fan-out. See `childOf` for one that runs here. */
export interface FanOutChild {
  readonly agentId: string;
  /** Names it in events and placeholders, for instance its run. Default: `agentId`. */
  readonly id?: string;
  /** The classes of the texts that it reads, for a merge guard. Default: none but its user's. A run in a fleet says so by itself. */
  readonly origins?: readonly TrustClass[];
  /**
   * Starts the child. What it answers decides everything else, so a fan-out that is run again with the same answers, in the
   * same order, ends the same way. The answer of `AgentHandle.run` will do too, except under a budget of tool calls, which
   * it does not report. `report` gives what was spent so far: that counts for a child which never answers.
   */
  invoke(signal: AbortSignal, report: (spent: Spent) => void): Promise<ChildOutcome | RunOutcomeView>;
}

type Merge<T> = (children: readonly FanOutResultChild[], signal: AbortSignal) => Promise<T> | T;

/** How the answers of the children become one. `judge` and `merge` get all children, in their order. */
export type MergeStrategy<T = string> =
  /** The outputs of the completed children in their order. `includeFailures` writes `[status: id]` for the others. */
  | { readonly kind: 'concat'; readonly separator?: string; readonly includeFailures?: boolean }
  /** The output of the first child that completes; the others are cancelled. Empty when none does. */
  | { readonly kind: 'first-success' }
  /** What the judge makes of them, when the merge guard lets it pass. */
  | { readonly kind: 'judge-merge'; readonly judge: Merge<T> }
  | { readonly kind: 'custom'; readonly merge: Merge<T> };

/** What each child may use. The time races with the child, the others are looked at when it has completed. */
export interface ChildBudget {
  readonly tokens?: number;
  readonly toolCalls?: number;
  readonly durationMs?: number;
}

export interface FanOutOptions<T = string> {
  /** 1 to 256. */
  readonly children: readonly FanOutChild[];
  /** Default `{ kind: 'concat' }` with a rule between blank lines. */
  readonly mergeStrategy?: MergeStrategy<T>;
  readonly perBudget?: ChildBudget;
  /** How many work at the same time: 1 to 64, default 4. */
  readonly maxConcurrentChildren?: number;
}

export interface FanOutPlan<T> {
  readonly children: readonly (FanOutChild & { readonly id: string })[];
  readonly strategy:
    | Exclude<MergeStrategy<T>, { kind: 'concat' }>
    | Required<Extract<MergeStrategy<T>, { kind: 'concat' }>>;
  readonly budget: ChildBudget & { readonly durationMs: number };
  readonly width: number;
}

const aFunction = z.custom<unknown>((value) => typeof value === 'function', 'must be a function');
const given = z.strictObject({
  children: z
    .array(
      z.looseObject({
        agentId: z.string().min(1),
        id: z.string().min(1).optional(),
        origins: z.array(trustClass).optional(),
        invoke: aFunction,
      }),
    )
    .min(1)
    .max(maxChildren),
  mergeStrategy: z
    .discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('concat'),
        separator: z.string().optional(),
        includeFailures: z.boolean().optional(),
      }),
      z.strictObject({ kind: z.literal('first-success') }),
      z.strictObject({ kind: z.literal('judge-merge'), judge: aFunction }),
      z.strictObject({ kind: z.literal('custom'), merge: aFunction }),
    ])
    .optional(),
  perBudget: z
    .strictObject({
      tokens: z.int().min(1).optional(),
      toolCalls: z.int().min(0).optional(),
      durationMs: z.int().min(1).max(longestMs).optional(),
    })
    .optional(),
  maxConcurrentChildren: z.int().min(1).max(64).default(4),
});

/** Throws `invalid_config` with all problems, before anything has started. */
export function planOf<T>(options: FanOutOptions<T>): FanOutPlan<T> {
  const checked = given.safeParse(options);
  if (!checked.success) {
    const problems = problemsOf(checked.error, 'options');
    throw new RunError('invalid_config', `fan-out: ${problems.join('; ')}`, { details: problems });
  }
  const { children, mergeStrategy = { kind: 'concat' }, perBudget } = options;
  return {
    children: children.map((child) => ({
      agentId: child.agentId,
      id: child.id ?? child.agentId,
      ...(child.origins && { origins: child.origins }),
      invoke: (signal, report) => child.invoke(signal, report),
    })),
    strategy: withDefaults(mergeStrategy),
    budget: { ...perBudget, durationMs: perBudget?.durationMs ?? longestMs },
    width: checked.data.maxConcurrentChildren,
  };
}

function withDefaults<T>(strategy: MergeStrategy<T>): FanOutPlan<T>['strategy'] {
  switch (strategy.kind) {
    case 'concat':
      return { separator: defaultSeparator, includeFailures: false, ...strategy };
    case 'first-success':
    case 'judge-merge':
    case 'custom':
      return strategy;
    default:
      return assertNever(strategy);
  }
}
