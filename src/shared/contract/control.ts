import { z } from 'zod';
import { errorInfo } from '../base/errors.ts';
import { jsonText, storedJson } from '../base/json.ts';
import { leakReport } from './agent/lateral-leak.ts';
import { runResult } from './event.ts';
import { flowLabel } from './message.ts';
import { microcents, runUsage } from './money.ts';
import { unfinishedWork } from './unfinished.ts';

/** How a cancel treats what is going on. `drain` lets the current step finish; the default stops at once. */
export const cancelRequest = z.strictObject({
  drain: z.boolean().default(false),
  onPendingApprovals: z.enum(['deny', 'hold', 'fail']).default('deny'),
  reason: z.string().max(500).optional(),
});
export type CancelRequest = z.output<typeof cancelRequest>;

/** A stored request to stop. One that cannot be read is a request to stop all the same. */
export function storedCancel(text: string): CancelRequest {
  try {
    return cancelRequest.parse(storedJson(text));
  } catch {
    return { drain: false, onPendingApprovals: 'deny' };
  }
}

const budgetDecisionForms = 'must be `approve`, `reject`, { topUpUsd } or { topUpMicrocents }';

/** A person's answer to a run that waits for money: pass the cap for this step, end the run, or add money for its account. */
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

const reasonText = z.string().max(500);
/** What a decision may name. */
export const maxCallIdChars = 512;
const callId = z.string().min(1).max(maxCallIdChars);
const maxArgsChars = 262_144;

const smallEnough = (value: unknown) => jsonText(value).length <= maxArgsChars;

/** A person's decision about one call that waits. Granted with `updatedArgs`, the call runs with these in place of the model's. */
export const approvalDecision = z
  .strictObject({
    toolCallId: callId,
    granted: z.boolean(),
    reason: reasonText.optional(),
    updatedArgs: z.record(z.string(), z.unknown()).refine(smallEnough, 'must be at most 256 KB').optional(),
  })
  .refine(({ granted, updatedArgs }) => granted || updatedArgs === undefined, 'updatedArgs needs granted: true');

const answerText = z.string().max(maxArgsChars, 'must be at most 256 KB');

/** The answer to a question, or the result of a call that was carried out elsewhere. Also as `{ questionId, text }`. */
export const answerDecision = z
  .strictObject({
    toolCallId: callId.optional(),
    questionId: callId.optional(),
    answer: answerText.optional(),
    text: answerText.optional(),
  })
  .refine(
    ({ toolCallId, questionId, answer, text }) =>
      (toolCallId === undefined) !== (questionId === undefined) && (answer === undefined) !== (text === undefined),
    'give { toolCallId, answer } or { questionId, text }',
  )
  .transform(({ toolCallId, questionId, answer, text }) => ({
    toolCallId: toolCallId ?? questionId ?? '',
    answer: answer ?? text ?? '',
  }));

const maxDecisions = 200;

/** What ends the wait of a suspended run, or a part of it. At least one of `approvals`, `answers` and `budget`. */
export const decisionRequest = z
  .strictObject({
    approvals: z.array(approvalDecision).min(1).max(maxDecisions).optional(),
    answers: z.array(answerDecision).min(1).max(maxDecisions).optional(),
    budget: budgetDecision.optional(),
    reason: reasonText.optional(),
  })
  .refine(
    ({ approvals, answers, budget }) => approvals !== undefined || answers !== undefined || budget !== undefined,
    'give approvals, answers or budget',
  );
export type DecisionRequest = z.output<typeof decisionRequest>;
export type DecisionInput = z.input<typeof decisionRequest>;

/** A decision as the journal keeps it: about the pending item `id`. `by` is everybody who had a part in it. */
export const callDecision = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('approval'),
    id: z.string(),
    granted: z.boolean(),
    reason: z.string().optional(),
    updatedArgs: z.record(z.string(), z.unknown()).optional(),
    by: z.array(z.string()).default([]),
    at: z.string(),
  }),
  z.object({
    kind: z.literal('answer'),
    id: z.string(),
    answer: z.string(),
    by: z.array(z.string()).default([]),
    at: z.string(),
  }),
  /** The run `id`, which does this call, has ended. `text` is cut after 256 KB. */
  z.object({
    kind: z.literal('child'),
    id: z.string(),
    status: z.enum(['completed', 'degraded', 'blocked', 'failed', 'cancelled']),
    text: z.string(),
    structured: z.unknown().optional(),
    error: errorInfo.optional(),
    /** Its answer is what it had found out when it reached a limit. */
    incomplete: runResult.shape.incomplete,
    /** What it left without an answer. No model reads it: it has no label. */
    unfinished: unfinishedWork.optional(),
    costMicrocents: microcents,
    usage: runUsage.optional(),
    steps: z.int().min(0),
    toolCalls: z.int().min(0).optional(),
    durationMs: z.int().min(0).optional(),
    /** What it had read when it wrote its answer. Absent: it is not known, because an older worker or none ended it. */
    flow: flowLabel.optional(),
    /** For the guards of its parents. Absent: none of them watches. */
    leaks: leakReport.optional(),
    /** The run that began in its place. */
    next: z.string().optional(),
    at: z.string(),
  }),
]);
export type CallDecision = z.output<typeof callDecision>;
/** How a run that works for another one has ended. */
export type ChildEnd = Extract<CallDecision, { kind: 'child' }>;

/** A message of the user to a running run. The same id again is the same message. */
export const steeringMessage = z.object({ id: z.string(), text: z.string(), at: z.string() });
export type SteeringMessage = z.output<typeof steeringMessage>;

/** What travels on the control channel. It is a wake-up: the durable flag in the run record is what counts. */
export const controlMessage = z.object({
  v: z.literal(1),
  runId: z.string(),
  op: z.literal('cancel'),
  cancel: cancelRequest,
});
export type ControlMessage = z.infer<typeof controlMessage>;
