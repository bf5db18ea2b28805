import { z } from 'zod';
import { compactionSource, finishReason, incompleteReason, suspendReason } from '../event.ts';
import { mediaPart } from '../media.ts';
import { handoffFilterDescriptor } from '../handoff/handoff.ts';
import { publicId } from '../../base/ids.ts';
import { assistantMessage, flowLabel, message, sensitivity } from '../message.ts';
import { callDecision, steeringMessage } from '../control.ts';
import { errorCode, errorInfo, toolErrorKind } from '../../base/errors.ts';
import { loopAction, loopPattern } from '../agent/loop-guard.ts';
import { denial, maxDenials } from '../agent/lateral-leak.ts';
import { trustClass } from '../agent/trust.ts';
import { microcents, runUsage, usage } from '../money.ts';

export const journalVersion = 1;

/** The outcome of one try of a step against one model; the run result lists them all. */
export const attempt = z.object({
  attemptNumber: z.int().min(1),
  step: z.int().min(1),
  provider: z.string(),
  model: z.string(),
  outcome: z.enum(['succeeded', 'failed', 'skipped']),
  requestId: z.string(),
  /** What the provider calls it: for its support. */
  providerRequestId: z.string().optional(),
  usage: usage.optional(),
  costMicrocents: microcents,
  priced: z.boolean(),
  latencyMs: z.int().min(0),
  finishReason: finishReason.optional(),
  error: z.object({ kind: z.string(), message: z.string(), status: z.int().optional() }).optional(),
  skipReason: z.string().optional(),
  /** Made for a summary. Absent: for the answer of the step. */
  purpose: z.literal('summary').optional(),
});
export type Attempt = z.infer<typeof attempt>;

const orchestrationSpending = z.object({
  costMicrocents: microcents,
  usage: runUsage,
  /** Some of it has no price that anybody knows. */
  unpriced: z.literal(true).optional(),
});

const text = z.string();
const count = z.int().min(0);
const step = z.int().min(1);
const attempts = z.array(attempt);
const served = { provider: text, model: text };

function entry<const T extends string, const S extends z.ZodRawShape>(t: T, shape: S) {
  return z.object({ v: z.literal(journalVersion), t: z.literal(t), ...shape });
}

/**
 * What a run continues from after a crash. Linear and append-only: an entry holds only what is new, and the state of a
 * turn is the fold over all entries.
 *
 * - agent_started: an agent began, with a prompt that it keeps although it might be another one later
 * - model_response: a model call finished; never paid again. `calls` of its message get keys `<runId>:s<step>:t<index>`
 * - attempted: attempts that failed without an answer, so that their cost is counted; or a media job that failed
 * - session_lost: the provider does not know its session any more; it is sent the whole conversation from now on
 * - tool_intent: the intent to run a tool that is not read-only, written before it starts
 * - tool_result: a tool's result as the model will see it; never executed again. Its end may be published later: ends keep the order of the calls
 * - inner_tool_intent, inner_tool_result: the same for the calls with side effects that a script makes, numbered within its call
 * - handed_off: another agent goes on from here, with what the filter lets through of the conversation
 * - loop_guarded: the run goes in circles: the model is warned, tools are withdrawn, or a person is asked
 * - loop_cleared: that person lets it go on: the ladder begins anew
 * - closing_held: from here on the run may hold money for a closing call
 * - closing_failed: it gave no answer, and the run fails: one that is redriven goes on from here
 * - closing: the run has reached a limit, and its closing call is about to be sent: once, whatever becomes of it
 * - steered: what the user wrote while the run worked; the next step sees it
 * - repair: the final answer of this step was refused for what `problem` says, and the model is asked once more
 * - suspended: the run waits without a worker, for people, for children, or for a time. `seq` counts the suspensions of a run from 1
 * - decided: that wait has ended; every resumption writes one. `approve`: the step that waited may pass the cap; `reject`: the run fails
 * - submitted: a provider took a media job; it is asked for its result from then on, and never given the job again
 * - generated: the media are there and kept; never paid again
 * - retrying: a node failed and is tried again, `number` counting from 1, not before `resumeAt`. What it has finished stays
 * - compacted: a summary replaces the beginning of the conversation from now on; never paid again. The kept messages are not repeated
 * - context_pinned: what the agent's hooks add to the next model call after a compaction
 * - orchestration_step: a step of an orchestration has its answer, which it keeps; `spent` is what the step paid itself. `emitted` counts the
 *   events of the orchestration so far
 * - orchestration_emitted: only that count; `spent` is what steps paid that were stopped before they had an answer
 * - closed: the turn has ended
 */
export const journalEntry = z.discriminatedUnion('t', [
  entry('agent_started', {
    model: text,
    at: text,
    /** Before what is added to it. */
    prompt: text.optional(),
  }),
  entry('model_response', {
    step,
    message: assistantMessage,
    finishReason,
    usage,
    attempts,
    ...served,
    sessionToken: text.optional(),
    checkpointToken: text.optional(),
    /** Whose tool each call means: `mcp:<server>/<tool>`, or null for code of the worker. Absent: code of the worker. */
    sources: z.array(text.nullable()).optional(),
  }),
  entry('attempted', { step, attempts }),
  entry('session_lost', { step }),
  entry('tool_intent', { step, indexes: z.array(count), at: text.optional() }),
  entry('tool_result', {
    step,
    index: count,
    toolCallId: text,
    toolName: text,
    content: text,
    sensitivity: sensitivity.optional(),
    errorKind: toolErrorKind.optional(),
    /** Counts against the correction rounds: the model may repair this mistake. */
    correctable: z.boolean().optional(),
    /** Absent: the result of a tool of the operator's own. */
    trust: trustClass.optional(),
    /** What looked like instructions was taken out of it, or there was none. Absent: it is as the tool wrote it. */
    sanitized: z.literal(true).optional(),
    /** Of what other tools or agents brought. */
    flow: flowLabel.optional(),
    /** What was denied to its script, where a guard watches for it. */
    denied: z.array(denial).max(maxDenials).optional(),
    /** Deferred tools that the model may call from the next step on. */
    promoted: z.array(text).optional(),
    /** The conversation goes on with this agent. */
    handoff: publicId.optional(),
    /** Indexes of the calls whose ends were published in the same write. Absent: its own. */
    ends: z.array(count).optional(),
  }),
  entry('handed_off', {
    step,
    from: publicId,
    to: publicId,
    filter: handoffFilterDescriptor,
    /** What crossed, where the filter cannot be replayed. */
    messages: z.array(message).optional(),
    /** Of what crossed: see `payloadDigest`. */
    digest: text.optional(),
  }),
  entry('inner_tool_intent', { step, index: count, number: z.int().min(1), fingerprint: text }),
  entry('inner_tool_result', {
    step,
    index: count,
    number: z.int().min(1),
    /** JSON text of what the script got. */
    outcome: text,
    /** It is not known whether the call took effect. */
    unknown: z.literal(true).optional(),
    /** Of what the script got. Absent: what the tool has them by default. */
    trust: trustClass.optional(),
    sensitivity: sensitivity.optional(),
    flow: flowLabel.optional(),
  }),
  entry('loop_guarded', {
    step,
    pattern: loopPattern,
    action: loopAction.exclude(['fail']),
    /** What the rungs of the ladder are about. */
    subject: text,
    count,
    /** What the model reads about it. */
    text: text.optional(),
    /** That the model may not call any more. */
    withdrawn: z.array(text).optional(),
    /** What a person is asked. */
    ask: z.object({ id: text, requestedAt: text, expiresAt: text }).optional(),
  }),
  entry('loop_cleared', { step }),
  entry('closing_failed', {}),
  entry('closing_held', {}),
  entry('closing', { step, reason: incompleteReason, error: z.object({ code: errorCode, message: text }) }),
  entry('steered', { messages: z.array(steeringMessage) }),
  entry('repair', { step, problem: text }),
  entry('suspended', {
    seq: z.int().min(1),
    reason: suspendReason,
    at: text,
    /** What people were asked, and the children that do calls, by index of the call. */
    asks: z
      .array(
        z.object({
          index: count,
          id: text,
          kind: z.enum(['approval', 'user_input', 'unknown_outcome', 'child']),
          requestedAt: text,
          expiresAt: text,
          /** They were shown what the data-flow policy had found. */
          flow: z.literal(true).optional(),
          /** Digest of what the server of the tool says about it, where the person decides about that, too. */
          pin: text.optional(),
        }),
      )
      .optional(),
    /** Of an orchestration: its children that run now, and how many events it has emitted. */
    children: z.array(text).optional(),
    emitted: count.optional(),
  }),
  entry('decided', {
    at: text,
    by: text.optional(),
    budget: z.enum(['approve', 'reject']).optional(),
    /** About what people were asked. */
    decisions: z.array(callDecision).optional(),
  }),
  entry('submitted', { step, attempts, ...served, jobId: text, at: text }),
  entry('generated', { step, attempts, ...served, media: z.array(mediaPart) }),
  entry('retrying', {
    number: z.int().min(1),
    resumeAt: text,
    /** Calls of the last step that are made again, by index. */
    calls: z.array(count),
  }),
  entry('compacted', {
    /** Whose model call comes next. */
    step,
    source: compactionSource,
    summary: text,
    /** How many messages it replaces, from the first one of the whole conversation: that before the turn, then the turn's. */
    replaced: z.int().min(1),
    /** Of what it was made from. Absent: public. */
    sensitivity: sensitivity.optional(),
    flow: flowLabel.optional(),
    attempts,
    beforeTokens: count,
    afterTokens: count,
    summaryTokens: count,
    durationMs: count,
    /** The hooks have yet to be asked: `context_pinned` follows. */
    hooksDue: z.boolean().optional(),
  }),
  entry('context_pinned', { step, texts: z.array(text) }),
  entry('orchestration_step', {
    key: text,
    value: z.unknown(),
    at: text,
    /** How long the run had been on workers by then, in milliseconds. */
    workedMs: count.optional(),
    emitted: count,
    spent: orchestrationSpending.optional(),
  }),
  entry('orchestration_emitted', { emitted: count, spent: orchestrationSpending.optional() }),
  entry('closed', { status: text, error: errorInfo.optional() }),
]);
export type JournalEntry = z.infer<typeof journalEntry>;
/** An entry of one kind. */
export type JournalEntryOf<T extends JournalEntry['t']> = Extract<JournalEntry, { t: T }>;
