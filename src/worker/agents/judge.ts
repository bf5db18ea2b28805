import { z } from 'zod';
import { errorInfo } from '../../shared/base/errors.ts';
import { microcents, usage } from '../../shared/contract/money.ts';

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

/** `weights`: the share of each child in the merged text, in their order. */
export type MergeVerdict =
  | { readonly kind: 'pass'; readonly weights?: readonly number[] }
  | { readonly kind: 'block'; readonly reason: string };

export type MergeGuard = (merge: MergeToCheck) => MergeVerdict;
