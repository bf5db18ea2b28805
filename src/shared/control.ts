import { z } from 'zod';

/** How a cancel treats what is going on. `drain` lets the current step finish; the default stops at once. */
export const cancelRequest = z.strictObject({
  drain: z.boolean().default(false),
  onPendingApprovals: z.enum(['deny', 'hold', 'fail']).default('deny'),
  reason: z.string().max(500).optional(),
});
export type CancelRequest = z.output<typeof cancelRequest>;

const budgetDecisionForms = 'must be `approve`, `reject`, { topUpUsd } or { topUpMicrocents }';

/** A person's answer to a run that waits for money: go over the cap for this step, give up, or more money for its account. */
export const budgetDecision = z.union(
  [
    z.enum(['approve', 'reject']),
    z
      .strictObject({
        topUpUsd: z.number().positive().finite().optional(),
        topUpMicrocents: z.int().positive().optional(),
      })
      .refine(
        (topUp) => (topUp.topUpUsd === undefined) !== (topUp.topUpMicrocents === undefined),
        'give topUpUsd or topUpMicrocents, one of them',
      ),
  ],
  budgetDecisionForms,
);

/** What ends the wait of a suspended run. */
export const decisionRequest = z.strictObject({
  budget: budgetDecision,
  reason: z.string().max(500).optional(),
});
export type DecisionRequest = z.output<typeof decisionRequest>;
export type DecisionInput = z.input<typeof decisionRequest>;

/** What travels on the control channel. It is a wake-up: the durable flag in the run record is what counts. */
export const controlMessage = z.object({
  v: z.literal(1),
  runId: z.string(),
  op: z.literal('cancel'),
  cancel: cancelRequest,
});
export type ControlMessage = z.infer<typeof controlMessage>;
