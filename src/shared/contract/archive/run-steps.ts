import { z } from 'zod';
import { errorInfo, toolErrorKind } from '../../base/errors.ts';
import { runId } from '../../base/ids.ts';
import { trustClass } from '../agent/trust.ts';
import { compactionSource, finishReason, incompleteReason, suspendReason } from '../event.ts';
import { flowDecision, flowFinding, flowMode } from '../flow.ts';
import { inputFiles } from '../input-parts.ts';
import { attempt } from '../journal/journal.ts';
import { mediaPart } from '../media.ts';
import { sensitivity } from '../message.ts';
import { microcents, runUsage, usage } from '../money.ts';
import { runStatus } from '../run.ts';

const text = z.string();
const count = z.int().min(0);
const stepNumber = z.int().min(1);

/** A call as the assistant message has it: what became of it is in the calls of its step. */
const shownCall = z.object({ toolCallId: text, toolName: text });

/**
 * One message of what a model was sent, as it may be shown. The result of a tool is in the call that it belongs to, so that no
 * text is there twice.
 */
export const shownMessage = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system'), content: text }),
  z.object({
    role: z.literal('user'),
    content: text,
    files: inputFiles.optional(),
    /** Not what was asked: what the user wrote later, what the worker added, or a summary in place of older messages. */
    kind: z.enum(['steered', 'repair', 'loop_guard', 'pinned', 'summary']).optional(),
  }),
  z.object({ role: z.literal('assistant'), content: text, calls: z.array(shownCall).optional() }),
  z.object({
    role: z.literal('tool'),
    ...shownCall.shape,
    /** Absent: it is the result of the call with this id in the step before. */
    content: text.optional(),
    isError: z.literal(true).optional(),
  }),
]);
export type ShownMessage = z.infer<typeof shownMessage>;

/** What a rule said about a call, or about the model call of a step. */
export const policyView = z.object({
  at: text,
  subject: text,
  action: text,
  ruleId: text.optional(),
  reason: text.optional(),
  subagentName: text.optional(),
  /** Of a model call: the step that it was for. */
  stepNumber: stepNumber.optional(),
});
export type PolicyView = z.infer<typeof policyView>;

/** What the data-flow policy found about a call, and what became of it. */
export const flowView = z.object({
  at: text,
  decision: flowDecision,
  mode: flowMode,
  findings: z.array(flowFinding),
  by: text.optional(),
});

/** What people decided about a call. `by` is empty where none gave a name, or none decided in time. */
export const callDecisionView = z.object({
  granted: z.boolean(),
  by: z.array(text),
  at: text,
  reason: text.optional(),
  /** The call ran with other arguments than the model's. */
  edited: z.literal(true).optional(),
  /** It was answered in place of being run. */
  answered: z.literal(true).optional(),
});

const callOfScript = z.object({
  toolCallId: text,
  toolName: text,
  /** Position among the calls of its step, or of its script, from 0. */
  index: count,
  /** As the call was made: those of a person where one has put others in the place of the model's. */
  args: z.unknown(),
  /** Something in them is masked. */
  argsMasked: z.literal(true).optional(),
  /** What the model had written, where a person has put other arguments in its place. */
  modelArgs: z.unknown().optional(),
  result: z
    .object({
      /** Empty where it is withheld. */
      content: text,
      trust: trustClass.optional(),
      sensitivity: sensitivity.optional(),
      /** Names where all of it can be read. */
      handle: text.optional(),
      /** It is secret, and kept nowhere but in the journal of the run. */
      withheld: z.literal(true).optional(),
      /** Only its beginning is known. */
      cut: z.literal(true).optional(),
    })
    .optional(),
  error: z.object({ kind: toolErrorKind, message: text, hint: text }).optional(),
  startedAt: text.optional(),
  endedAt: text.optional(),
  durationMs: count.optional(),
  /** How often it was begun, where that is more than once: a worker was lost, or the run was tried again. */
  starts: z.int().min(2).optional(),
  decision: callDecisionView.optional(),
  /** The run that does it. */
  childRunId: runId.optional(),
  policy: z.array(policyView),
  flow: z.array(flowView),
});

/** One call of a tool. Without a result and without an error it has not ended, or ended with the run. */
export const callView = callOfScript.extend({
  /** Those that a script made, in the order in which they began. */
  inner: z.array(callOfScript.extend({ inner: z.array(z.never()) })),
});
export type CallView = z.infer<typeof callView>;

/** Why another model took over. */
export const fallbackView = z.object({ at: text, from: text, to: text, reason: text });

export const compactionView = z.object({
  source: compactionSource,
  summary: text,
  beforeTokens: count,
  afterTokens: count,
  summaryTokens: count,
  durationMs: count,
  costMicrocents: microcents,
});

/** One step: what a model was asked beyond the step before, what it answered, and its calls. Without an answer none came. */
export const stepView = z.object({
  stepNumber,
  agent: text,
  /** Of the answer; before there is one, of the model that was asked first. */
  model: text.optional(),
  provider: text.optional(),
  /** Absent where the log has only what came later. */
  startedAt: text.optional(),
  firstTokenAt: text.optional(),
  /** When the answer and all results were in the journal. */
  endedAt: text.optional(),
  request: z.object({
    /** Beyond what was in the conversation before. */
    added: z.array(shownMessage),
  }),
  answer: z
    .object({
      text,
      reasoning: text.optional(),
      finishReason,
      /** In place of a text. */
      media: z.array(mediaPart).optional(),
    })
    .optional(),
  attempts: z.array(attempt),
  fallbacks: z.array(fallbackView),
  calls: z.array(callView),
  usage: usage.optional(),
  /** Of all its attempts, summaries included. */
  costMicrocents: microcents,
  /** Before this step a summary took the place of older messages. */
  compaction: compactionView.optional(),
  /** Before this step another agent took over. */
  handoff: z.object({ from: text, to: text }).optional(),
  /** The run had reached this limit: it was the call for a last answer, without tools. */
  closing: z.object({ reason: incompleteReason }).optional(),
  /** A provider works, or worked, on its media. */
  mediaJob: z.object({ jobId: text, submittedAt: text }).optional(),
  /** How often its answer was dropped and asked for again: its worker was lost, or its stream broke off. */
  resets: z.int().min(1).optional(),
});
export type StepView = z.infer<typeof stepView>;

/** One stay of the run on a worker. */
export const segmentView = z.object({
  /** Absent where it is not known. */
  worker: text.optional(),
  from: text,
  /** Of a worker that was lost: its last sign of life. */
  to: text.optional(),
  /** Absent: it is there now, or it is not known. */
  end: z.enum(['lost', 'handed_over', 'suspended', 'ended']).optional(),
  /** It continues what another worker had left: the number of finished steps. */
  recoveredFrom: count.optional(),
});
export type SegmentView = z.infer<typeof segmentView>;

/** What a suspended run waited for, or that it had failed until it was redriven (`redrive`). Without `to` it waits now. */
export const waitView = z.object({
  reason: z.enum([...suspendReason.options, 'redrive']),
  from: text,
  to: text.optional(),
  waitsFor: z.array(z.object({ kind: suspendReason, id: text, toolName: text.optional() })),
  /** Who ended it. */
  by: z.array(text),
  /** In words, how it ended. */
  summary: text.optional(),
});
export type WaitView = z.infer<typeof waitView>;

/** A run that works for this one. What is not known of it yet, or any more, is absent. */
export const childView = z.object({
  runId,
  agent: text.optional(),
  status: runStatus.optional(),
  /** The call that it does. */
  toolCallId: text.optional(),
  startedAt: text.optional(),
  endedAt: text.optional(),
  costMicrocents: microcents.optional(),
});
export type ChildView = z.infer<typeof childView>;

/** What an orchestration did itself: one answer that it got, and keeps. */
export const orchestrationStepView = z.object({
  key: text,
  at: text,
  value: z.unknown(),
  costMicrocents: microcents,
  usage: runUsage.optional(),
});
export type OrchestrationStepView = z.infer<typeof orchestrationStepView>;

/** What the definition of the agent said with which a run began; other fields of it are in the export of the run. */
export const agentThen = z.object({
  instructions: text,
  tools: z.array(
    z.object({ name: text, description: text.optional(), parameters: z.record(z.string(), z.unknown()).optional() }),
  ),
});
export type AgentThen = z.infer<typeof agentThen>;

/** What `GET /v1/runs/{id}/steps` answers. */
export const runSteps = z.object({
  runId,
  status: runStatus,
  /** `live`: read from what the run itself keeps; times of a run that works may be missing a moment. */
  source: z.enum(['live', 'archive']),
  /** The conversation before the first answer, its system text first where that is known. */
  initial: z.array(shownMessage),
  /** Absent: no worker has begun it, the archive is off, or its agent is not archived. */
  agentThen: agentThen.optional(),
  steps: z.array(stepView),
  segments: z.array(segmentView),
  waits: z.array(waitView),
  children: z.array(childView),
  /** Of a fan-out, an evaluation or a task. */
  orchestration: z.array(orchestrationStepView),
  /** What rules said about model calls. */
  policy: z.array(policyView),
  error: errorInfo.optional(),
  queuedAt: text,
  startedAt: text.optional(),
  endedAt: text.optional(),
  /** Something is missing: the log of the run is longer than what is kept of it, or its journal is gone. */
  truncated: z.literal(true).optional(),
});
export type RunSteps = z.infer<typeof runSteps>;
