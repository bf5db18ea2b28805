import { z } from 'zod';
import { compactionSource, finishReason, suspendReason } from '../event.ts';
import { mediaPart } from '../media.ts';
import { handoffFilterDescriptor } from '../handoff/handoff.ts';
import { publicId } from '../../base/ids.ts';
import { assistantMessage, message, sensitivity } from '../message.ts';
import { callDecision, steeringMessage } from '../control.ts';
import { errorInfo, toolErrorKind } from '../../base/errors.ts';
import { trustClass } from '../agent/agent.ts';
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
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('agent_started'),
    model: z.string(),
    at: z.string(),
    /** Before what is added to it. */
    prompt: z.string().optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('model_response'),
    step: z.int().min(1),
    message: assistantMessage,
    finishReason,
    usage,
    attempts: z.array(attempt),
    provider: z.string(),
    model: z.string(),
    sessionToken: z.string().optional(),
    checkpointToken: z.string().optional(),
    /** Whose tool each call means: `mcp:<server>/<tool>`, or null for code of the worker. Absent: code of the worker. */
    sources: z.array(z.string().nullable()).optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('attempted'),
    step: z.int().min(1),
    attempts: z.array(attempt),
  }),
  z.object({ v: z.literal(journalVersion), t: z.literal('session_lost'), step: z.int().min(1) }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('tool_intent'),
    step: z.int().min(1),
    indexes: z.array(z.int().min(0)),
    at: z.string().optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('tool_result'),
    step: z.int().min(1),
    index: z.int().min(0),
    toolCallId: z.string(),
    toolName: z.string(),
    content: z.string(),
    sensitivity: sensitivity.optional(),
    errorKind: toolErrorKind.optional(),
    /** Counts against the correction rounds: the model may repair this mistake. */
    correctable: z.boolean().optional(),
    /** Absent: the result of a tool of the operator's own. */
    trust: trustClass.optional(),
    /** Deferred tools that the model may call from the next step on. */
    promoted: z.array(z.string()).optional(),
    /** The conversation goes on with this agent. */
    handoff: publicId.optional(),
    /** Indexes of the calls whose ends were published in the same write. Absent: its own. */
    ends: z.array(z.int().min(0)).optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('handed_off'),
    step: z.int().min(1),
    from: publicId,
    to: publicId,
    filter: handoffFilterDescriptor,
    /** What crossed, where the filter cannot be replayed. */
    messages: z.array(message).optional(),
    /** Of what crossed: see `payloadDigest`. */
    digest: z.string().optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('inner_tool_intent'),
    step: z.int().min(1),
    index: z.int().min(0),
    number: z.int().min(1),
    fingerprint: z.string(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('inner_tool_result'),
    step: z.int().min(1),
    index: z.int().min(0),
    number: z.int().min(1),
    /** JSON text of what the script got. */
    outcome: z.string(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('steered'),
    messages: z.array(steeringMessage),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('repair'),
    step: z.int().min(1),
    problem: z.string(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('suspended'),
    seq: z.int().min(1),
    reason: suspendReason,
    at: z.string(),
    /** What people were asked, and the children that do calls, by index of the call. */
    asks: z
      .array(
        z.object({
          index: z.int().min(0),
          id: z.string(),
          kind: z.enum(['approval', 'user_input', 'unknown_outcome', 'child']),
          requestedAt: z.string(),
          expiresAt: z.string(),
        }),
      )
      .optional(),
    /** Of an orchestration: its children that run now, and how many events it has emitted. */
    children: z.array(z.string()).optional(),
    emitted: z.int().min(0).optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('decided'),
    at: z.string(),
    by: z.string().optional(),
    budget: z.enum(['approve', 'reject']).optional(),
    /** About what people were asked. */
    decisions: z.array(callDecision).optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('submitted'),
    step: z.int().min(1),
    attempts: z.array(attempt),
    provider: z.string(),
    model: z.string(),
    jobId: z.string(),
    at: z.string(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('generated'),
    step: z.int().min(1),
    attempts: z.array(attempt),
    provider: z.string(),
    model: z.string(),
    media: z.array(mediaPart),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('retrying'),
    number: z.int().min(1),
    resumeAt: z.string(),
    /** Calls of the last step that are made again, by index. */
    calls: z.array(z.int().min(0)),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('compacted'),
    /** Whose model call comes next. */
    step: z.int().min(1),
    source: compactionSource,
    summary: z.string(),
    /** How many messages it replaces, from the first one of the whole conversation: that before the turn, then the turn's. */
    replaced: z.int().min(1),
    /** Of what it was made from. Absent: public. */
    sensitivity: sensitivity.optional(),
    attempts: z.array(attempt),
    beforeTokens: z.int().min(0),
    afterTokens: z.int().min(0),
    summaryTokens: z.int().min(0),
    durationMs: z.int().min(0),
    /** The hooks have yet to be asked: `context_pinned` follows. */
    hooksDue: z.boolean().optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('context_pinned'),
    step: z.int().min(1),
    texts: z.array(z.string()),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('orchestration_step'),
    key: z.string(),
    value: z.unknown(),
    at: z.string(),
    /** How long the run had been on workers by then, in milliseconds. */
    workedMs: z.int().min(0).optional(),
    emitted: z.int().min(0),
    spent: orchestrationSpending.optional(),
  }),
  z.object({
    v: z.literal(journalVersion),
    t: z.literal('orchestration_emitted'),
    emitted: z.int().min(0),
    spent: orchestrationSpending.optional(),
  }),
  z.object({ v: z.literal(journalVersion), t: z.literal('closed'), status: z.string(), error: errorInfo.optional() }),
]);
export type JournalEntry = z.infer<typeof journalEntry>;
/** An entry of one kind. */
export type JournalEntryOf<T extends JournalEntry['t']> = Extract<JournalEntry, { t: T }>;
