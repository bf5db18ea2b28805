/**
 * The words of Millrace, one per idea, used alike in code, docs, events and metrics.
 *
 * - job: one entry in a BullMQ queue
 * - run: one execution of an agent; may span several jobs
 * - segment: one stay of a run on a worker, between two waits
 * - turn: a user message to the final answer
 * - step: one model call plus the tool calls it asked for, numbered from 1
 * - attempt: one try of a step against one model
 * - call: one tool invocation
 * - event: an immutable fact about a run, numbered from 1 without gaps
 * - journal: the entries from which a run continues after a crash
 * - thread: ordered messages, with a lock that one run owns; the others wait in its wait queue
 * - agent: a definition; tool: what its model may call; guard: a pure function that returns a verdict
 * - port: what the core asks of the outside; store: a port kept in Redis
 * - owner: the nonce that lets exactly one processor call write to a run
 * - orchestration: a durable function that is replayed: fan-out, evaluation, task
 * - parent, child: runs that work for each other
 * - account: whom a cost is charged to; reservation: money kept for an attempt before it is sent
 * - rate limiter: shares what a provider allows over the fleet; permit: its leave for one attempt
 * - handover: from worker to worker; handoff: from agent to agent
 *
 * The whole list is docs/glossary.md.
 */
import { z } from 'zod';
import { errorInfo, toolErrorKind } from '../base/errors.ts';
import { mediaHandle, mediaPart } from './media.ts';
import { budgetScope, microcents, runUsage, usage } from './money.ts';
import { reservedEvents } from './reserved.ts';

export const eventVersion = 1;

/** What the outer layer stamps on every body. The turn core never sees any of it. */
export const eventEnvelope = z.object({
  v: z.literal(eventVersion),
  runId: z.string(),
  sequenceNumber: z.int().min(1),
  timestamp: z.string(),
  executionId: z.string().optional(),
  threadId: z.string().optional(),
  sessionId: z.string().optional(),
  agentId: z.string().optional(),
  nodeId: z.string().optional(),
  parentRunId: z.string().optional(),
  depth: z.int().optional(),
  jobAttempt: z.int().optional(),
  background: z.boolean().optional(),
  correlationId: z.string().optional(),
});
export type EventEnvelope = z.infer<typeof eventEnvelope>;

const count = z.int().min(0);
const stepNumber = z.int().min(1);
const args = z.record(z.string(), z.unknown());

export const finishReason = z.enum(['stop', 'length', 'tool_use', 'content_filter', 'error']);
export type FinishReason = z.infer<typeof finishReason>;

/** What asked for a compaction: the length of the conversation, a caller, or a provider that refused the length. */
export const compactionSource = z.enum(['auto-trigger', 'manual', 'pre-step']);
export type CompactionSource = z.infer<typeof compactionSource>;

export const suspendReason = z.enum([
  'approval',
  'budget',
  'user_input',
  'media',
  'child',
  'unknown_outcome',
  'provider_limit',
  'retry',
]);

export type SuspendReason = z.infer<typeof suspendReason>;

const classification = z.object({
  trust: z.string(),
  sideEffectClass: z.string(),
  sensitivity: z.string(),
});

/** One thing a suspended run waits for. */
export const pendingItem = z.object({
  kind: suspendReason,
  id: z.string(),
  toolName: z.string().optional(),
  args: args.optional(),
  reason: z.string().optional(),
  requestedAt: z.string(),
  expiresAt: z.string().optional(),
  /** `deferred`: it may also be answered with a result. */
  mode: z.enum(['approval', 'deferred']).optional(),
  /** How many different people have to grant it. Absent: one. */
  approvers: z.int().min(1).optional(),
  classification: classification.optional(),
});
export type PendingItem = z.infer<typeof pendingItem>;

/** The same as it is shown: what is about a call has the name that a decision about it uses. */
export const pendingView = pendingItem.omit({ id: true }).extend({
  toolCallId: z.string().optional().describe('Of calls and questions: what a decision names.'),
  id: z.string().optional().describe('Of everything else: the account, run, model or media job that it waits for.'),
});
export type PendingView = z.infer<typeof pendingView>;

export const runResult = z.object({
  text: z.string(),
  output: z.unknown().optional(),
  structured: z.unknown().optional(),
  media: z.array(mediaPart).optional(),
  finishReason: finishReason.optional(),
  emptyResponse: z.boolean().optional(),
});
export type RunResultBody = z.infer<typeof runResult>;

const approval = z.object({
  toolCallId: z.string(),
  toolName: z.string(),
  args,
  reason: z.string().optional(),
  mode: z.string(),
  requestedAt: z.string(),
  expiresAt: z.string().optional(),
  classification,
});

const decision = z.object({
  toolCallId: z.string(),
  toolName: z.string(),
  by: z.string().optional(),
  reason: z.string().optional(),
  edited: z.literal(true).optional(),
});

const moneyState = z.object({ spentMicrocents: microcents, limitMicrocents: microcents });

/**
 * Every event type with its body. Adding a line here makes the compiler point at every switch that must know it.
 */
export const eventBodies = {
  'run.queued': z
    .object({ kind: z.string(), queuedAt: z.string(), attached: z.boolean().optional() })
    .describe('The run is accepted: its record exists and its job is about to be in the queue.'),
  'execution.started': z
    .object({})
    .describe(
      'The run was submitted with an execution id. Emitted once, before anything else of the run but `run.queued`.',
    ),
  'run.started': z
    .object({
      kind: z.string(),
      model: z.string().optional(),
      attempt: z.int().min(1),
      resumed: z.boolean().optional(),
    })
    .describe(
      'A worker has the run for the first time or, with `resumed`, again after a wait. `attempt` counts the times that a worker took it.',
    ),
  'run.recovered': z
    .object({ fromCheckpoint: count, previousWorker: z.string().optional() })
    .describe(
      'Another worker continues the run: the one before was lost, or handed it over. `fromCheckpoint` is the number of finished steps.',
    ),
  'run.suspended': z
    .object({ reason: suspendReason, pending: z.array(pendingView), expiresAt: z.string().optional() })
    .describe('The run waits and needs no worker. `pending` lists what for.'),
  'run.resumed': z
    .object({ directiveSummary: z.string() })
    .describe('What the run waited for has come; a worker is about to take it.'),
  'run.timeout': z
    .object({ elapsedMs: count, timeoutMs: count })
    .describe('The run reached its wall-clock limit; `run.failed` follows.'),
  'run.completed': z
    .object({
      status: z.enum(['completed', 'degraded', 'blocked']),
      result: runResult,
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count,
      steps: count,
    })
    .describe(
      'The run has its answer. `degraded`: no model answered, a tool failed, or a person denied a call, and the agent says that this takes the place of an answer.',
    ),
  'run.failed': z
    .object({
      error: errorInfo,
      partial: z.string().optional(),
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count.optional(),
    })
    .describe(
      'The run ended with an error. `partial` is the text that was shown last; a run that never began has no `durationMs`.',
    ),
  'run.cancelled': z
    .object({
      reason: z.string().optional(),
      drained: z.boolean(),
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count.optional(),
    })
    .describe('The run was cancelled. `drained`: the step that was under way was finished first.'),

  'agent.start': z.object({}).describe('The turn begins.'),
  'agent.end': z
    .object({ output: z.string(), status: z.string() })
    .describe('The turn has ended, with the final text.'),
  'agent.error': z
    .object({ code: z.string(), message: z.string() })
    .describe('The turn has ended, with an error; `run.failed` follows.'),
  'agent.thinking': z.object({}).describe('The first reasoning of a step has arrived.'),
  'step.start': z
    .object({ stepNumber, model: z.string(), modelSource: z.string(), modelReason: z.string().optional() })
    .describe(
      'A model call is about to be made. `modelSource` says where the choice of the model came from, `modelReason` which wish could not be met.',
    ),
  'step.reset': z
    .object({ stepNumber, reason: z.string() })
    .describe(
      'Forget the deltas of this step: its model call died with its worker (`recovered`), or its stream broke off (`stream_broke`), and is made again.',
    ),
  'step.end': z
    .object({ stepNumber, usage, finishReason })
    .describe('The step is complete: the answer and the results of all its tool calls are in the journal.'),
  'text.delta': z.object({ delta: z.string(), model: z.string() }).describe('More text of the answer.'),
  'text.complete': z.object({ text: z.string() }).describe('The whole text of a step, once its answer is complete.'),
  'reasoning.delta': z
    .object({ delta: z.string(), model: z.string() })
    .describe('More reasoning, where the provider shows it.'),
  'agent.response': z
    .object({ text: z.string() })
    .describe('The answer, for the part that delivers it. A run in the background has none: no caller waits for it.'),
  'agent.model.fellback': z
    .object({
      from: z.string(),
      to: z.string(),
      previousModel: z.string(),
      nextModel: z.string(),
      reason: z.enum(['rate-limit', 'capacity', 'context-length', 'transient']),
      stepNumber,
      attempt: z.int().min(1),
    })
    .describe('Another model takes over. `from` and `to` are models.'),
  'agent.cancelling': z
    .object({ drain: z.boolean(), onPendingApprovals: z.enum(['deny', 'hold', 'fail']) })
    .describe(
      'A cancel of a run that has begun was asked for, and how. With `hold` a run that waits for people or for money goes on waiting.',
    ),
  'agent.steered': z
    .object({ messageId: z.string(), text: z.string() })
    .describe('The user wrote a message while the run worked; the next step sees it. A long text is cut.'),
  'policy.decision': z
    .object({
      subject: z.string(),
      action: z.string(),
      ruleId: z.string().optional(),
      reason: z.string().optional(),
      toolCallId: z.string().optional(),
      toolName: z.string().optional(),
      subagentName: z.string().optional(),
    })
    .describe(
      'A rule decided about a call. `subject` `llm_call`: the model call of the next step; `tool_call`: the call `toolCallId`; `subagent`: the agent `subagentName`, which the call or the fan-out would start. Calls that no rule is about have no event.',
    ),
  'llm.call': z
    .object({
      model: z.string(),
      provider: z.string(),
      requestId: z.string(),
      providerRequestId: z.string().optional(),
      attemptNumber: z.int().min(1),
      outcome: z.enum(['succeeded', 'failed', 'skipped']),
      tokensIn: count,
      tokensOut: count,
      latencyMs: count,
      finishReason: finishReason.optional(),
      error: z.object({ kind: z.string(), message: z.string(), status: z.int().optional() }).optional(),
    })
    .describe(
      'One attempt against a model is over, or a model was skipped. `requestId` is what the provider was sent, `providerRequestId` what it calls the request itself. `tokensIn` includes what was read from and written to the cache of the provider.',
    ),

  'cost.updated': z
    .object({
      model: z.string(),
      inputTokens: count,
      outputTokens: count,
      cachedTokens: count.optional(),
      cacheWriteTokens: count.optional(),
      costMicrocents: microcents,
      cumulativeCostMicrocents: microcents,
      attemptNumber: z.int().min(1).optional(),
      priced: z.boolean(),
      usageReported: z.boolean(),
    })
    .describe(
      'What an attempt cost, and the run so far. `priced` is false where no price is known; `usageReported` is false where the provider counted no tokens.',
    ),
  'budget.warning': z
    .object({ ...moneyState.shape, thresholdPct: z.number() })
    .describe(
      'The next model call may pass the cap, and the budget says to go on. Emitted once per worker that has the run.',
    ),
  'budget.paused': z
    .object({ ...moneyState.shape, gateId: z.string(), scope: budgetScope, accountId: z.string() })
    .describe(
      'The next model call could pass the cap of this account, and the budget says to wait: for a decision, a top-up, or cheaper calls of others. `run.suspended` follows.',
    ),
  'usage.recorded': z
    .object({ usage: runUsage, costMicrocents: microcents })
    .describe('What the whole run has used. Emitted once, at the end of a run that a worker had.'),

  'tool.call.start': z
    .object({ toolCallId: z.string(), toolName: z.string() })
    .describe('The model begins to write a tool call.'),
  'tool.call.end': z
    .object({ toolCallId: z.string(), finalArgs: args })
    .describe('The model has written a tool call. Credentials in the arguments are masked.'),
  'tool.call.incomplete': z
    .object({ toolCallId: z.string(), toolName: z.string() })
    .describe('The model was cut off while it wrote this call. It never runs.'),
  'tool.execute.start': z
    .object({
      toolCallId: z.string(),
      toolName: z.string(),
      args,
      summary: z.string(),
      attemptNumber: z.int().min(1).optional(),
      parentToolCallId: z.string().optional(),
      relayed: z.literal(true).optional(),
    })
    .describe('A tool starts. `relayed`: the provider runs it, not this worker.'),
  'tool.execute.progress': z
    .object({ toolCallId: z.string(), data: z.unknown() })
    .describe('What the tool says about how far it is.'),
  'tool.execute.partial': z
    .object({ toolCallId: z.string(), data: z.unknown() })
    .describe('A part of the result that the tool shows early.'),
  'tool.execute.end': z
    .object({
      toolCallId: z.string(),
      toolName: z.string(),
      success: z.literal(true),
      outputSummary: z.string().max(500),
      durationMs: count,
      flagged: z.array(z.string()).optional(),
      parentToolCallId: z.string().optional(),
      resultHandle: z.string().optional(),
      relayed: z.literal(true).optional(),
    })
    .describe(
      'The tool has answered. `flagged` names what in it looks like instructions to the model; by trust it was taken out or only noticed.',
    ),
  'tool.execute.error': z
    .object({
      toolCallId: z.string(),
      toolName: z.string(),
      success: z.literal(false),
      error: z.object({ kind: toolErrorKind, message: z.string(), hint: z.string() }),
      durationMs: count,
      flagged: z.array(z.string()).optional(),
      parentToolCallId: z.string().optional(),
      relayed: z.literal(true).optional(),
    })
    .describe('The call has no result: the error that the model gets instead.'),
  'tool.outcome_unknown': z
    .object({ toolCallId: z.string(), toolName: z.string(), key: z.string() })
    .describe('A call that may or may not have taken effect. It is not repeated. `key` is its idempotency key.'),
  'tool.approval.requested': approval.describe(
    'A call waits for a person. `mode` `deferred`: it may also be answered with a result. `run.suspended` follows.',
  ),
  'tool.approval.granted': decision.describe('A person granted the call: it runs now. `edited`: with other arguments.'),
  'tool.approval.denied': decision.describe('A person denied the call, or none decided in time (`expired`).'),

  handoff: z
    .object({ fromAgentId: z.string(), toAgentId: z.string(), filter: z.unknown().optional() })
    .describe('Another agent goes on, with what the filter let through of the conversation.'),
  'subagent.event': z
    .object({ childRunId: z.string(), childDepth: z.int(), event: z.unknown() })
    .describe('An event of a run that works for this one, or for one of those. Its deltas are in its own log only.'),
  'agent.fanout.spawned': z
    .object({ children: z.array(z.string()) })
    .describe(
      'Several agents are asked, some of them perhaps later than others. `children` names them in their order.',
    ),
  'agent.fanout.merged': z
    .object({
      strategy: z.string(),
      children: z.array(z.string()),
      statuses: z.array(z.string()),
      weights: z.array(z.number()).optional(),
    })
    .describe(
      'All of them have ended, and their answers are one. `statuses` (`completed`, `failed`, `budget_exceeded`, `cancelled`) and `weights`, their shares where a merge guard measured them, are in the order of `children`.',
    ),
  'agent.evaluator.iteration': z
    .object({
      iteration: z.int().min(1),
      passed: z.boolean(),
      score: z.number().optional(),
    })
    .describe('An answer was evaluated. One that did not pass goes back with what is wrong with it.'),
  'agent.evaluator.converged': z
    .object({ termination: z.string(), iterations: count })
    .describe(
      'No further answer is asked for. `termination`: `pass`, `maxIterations`, `generator-exhausted` or `cancelled`. `iterations` counts the answers that were evaluated.',
    ),

  'context.compacted': z
    .object({
      beforeTokens: count,
      afterTokens: count,
      summaryTokens: count,
      durationMs: count,
      hooksFiredCount: count,
      source: compactionSource,
    })
    .describe(
      'A summary took the place of the older part of the conversation. Tokens are estimates of the next request before and after; `hooksFiredCount` counts hooks that did not fail; `source` says what asked for it: the length, a caller, or (`pre-step`) a provider that refused the length.',
    ),
  'agent.progress.written': z
    .object({ ref: z.string(), sha256: z.string() })
    .describe('A progress note was written. Its text is in no event.'),
  'agent.progress.read': z.object({ ref: z.string(), sha256: z.string() }).describe('A progress note was read.'),
  'file.generated': z
    .object({ handle: mediaHandle, mediaType: z.string().optional() })
    .describe('A file of the run is kept. `GET /v1/media/:sha256` has its bytes.'),

  'capability.file_sent': z
    .object({
      path: z.string().optional(),
      handle: z.string().optional(),
      caption: z.string().optional(),
      fileType: z.string(),
    })
    .describe('A capability sends a file, by its path or by the handle of a result. A subscriber delivers it.'),
  'capability.note_shared': z
    .object({ title: z.string(), slug: z.string(), message: z.string().optional() })
    .describe('A capability shares a note.'),
  'capability.pin_changed': z.object({}).describe('A capability changed what is pinned.'),
  'capability.user_notified': z.object({ message: z.string() }).describe('A capability has a message for the user.'),

  'node.started': z.object({}).describe('The run is a node of a workflow, named by `nodeId`, and begins.'),
  'node.completed': z
    .object({
      output: z.unknown(),
      tokensUsed: z.object({ input: count, output: count, model: z.string() }),
    })
    .describe(
      'The node has its output: a text, the value that its schema asks for, or media. `run.completed` follows.',
    ),
  'node.failed': z.object({ error: errorInfo }).describe('The node failed for good; `run.failed` follows.'),
  'node.retrying': z
    .object({ attemptNumber: z.int().min(1), error: errorInfo, delayMs: count })
    .describe('The node failed and is tried again after a wait. `attemptNumber` counts the retries from 1.'),
  'media_job.submitted': z
    .object({ jobId: z.string(), provider: z.string(), model: z.string() })
    .describe('A provider works on the media. The run waits without a worker and asks now and then.'),

  'task.start': z
    .object({ taskId: z.string(), intent: z.string().optional(), resumed: z.literal(true).optional() })
    .describe('A task begins or, with `resumed`, goes on with the answer to its question.'),
  'task.readiness': z
    .object({ ready: z.boolean(), missing: z.array(z.string()) })
    .describe(
      'What the task needs to know was compared with what is known. `missing` has ids, also of what is only wished for.',
    ),
  'task.questions': z
    .object({ questions: z.array(z.string()) })
    .describe('What people have to answer before the task can go on.'),
  'task.acquisition': z
    .object({ plan: z.array(z.string()) })
    .describe('How what is missing could be had without people. Nothing was done about it.'),
  'task.observe': z
    .object({})
    .describe('The adapter has observed how things stand. The state is in no event of its own.'),
  'task.validate': z.object({ evals: z.array(z.unknown()) }).describe('What was observed has been checked.'),
  'task.decide': z
    .object({ decision: z.unknown() })
    .describe('The adapter has decided: `act`, `ask` or `stop`. An action of more than 32 KiB is `null`.'),
  'task.act': z
    .object({ outcome: z.unknown() })
    .describe(
      'An action has ended. `costMicrocents` is what it cost beside what `cost.updated` says; a result of more than 32 KiB is `null`.',
    ),
  'task.step': z
    .object({ record: z.unknown() })
    .describe(
      'A step is complete: decision, outcome, states and evals before and after. One of more than 32 KiB has only its outline and is `cut`.',
    ),
  'task.end': z
    .object({
      status: z.string(),
      pass: z.boolean(),
      score: z.number().optional(),
      reason: z.string(),
      stoppedBy: z.string(),
    })
    .describe('The task has ended as `completed`, `failed`, `blocked` or `aborted`. `stoppedBy` says what ended it.'),

  ...reservedEvents,
} as const satisfies Record<string, z.ZodObject>;

export type EventType = keyof typeof eventBodies;

/** An empty body infers as a record of nothing, which would forbid even the type; it adds no fields instead. */
type BodyFields<T extends EventType> =
  (typeof eventBodies)[T]['shape'] extends Record<string, never> ? unknown : z.infer<(typeof eventBodies)[T]>;

/** A fact as the turn core emits it: a type and its body, nothing about the run around it. */
export type EventBody = { [T in EventType]: { type: T } & BodyFields<T> }[EventType];

/** A fact as subscribers receive it. Consumers must ignore types and fields they do not know. */
export type RunEvent = { [T in EventType]: EventEnvelope & { type: T } & BodyFields<T> }[EventType];

/** An event of one type, for functions that handle just that one. */
export type EventOf<T extends EventType> = Extract<RunEvent, { type: T }>;

export type TerminalEventType = 'run.completed' | 'run.failed' | 'run.cancelled';

const terminalTypes: ReadonlySet<string> = new Set<TerminalEventType>(['run.completed', 'run.failed', 'run.cancelled']);

/** Exactly one of these ends every run's log; nothing follows it. */
export function isTerminal(event: { type: string }): boolean {
  return terminalTypes.has(event.type);
}

const lifecycleTypes: ReadonlySet<string> = new Set<EventType>([
  'run.queued',
  'run.started',
  'run.suspended',
  'run.resumed',
  'run.completed',
  'run.failed',
  'run.cancelled',
]);

/** The events that also go to the lifecycle stream. */
export function isLifecycle(type: string): boolean {
  return lifecycleTypes.has(type);
}

/** Events that carry streamed text: merged on the way out, and left out of the firehose. */
export function isDelta(type: string): boolean {
  return type === 'text.delta' || type === 'reasoning.delta' || type === 'tool.call.delta';
}

const variants = Object.entries(eventBodies).map(([type, body]) =>
  z.object({ ...eventEnvelope.shape, type: z.literal(type), ...body.shape }),
);

/** Strict check of one event, for tests and for the reference page; subscribers use {@link parseEvent}. */
export const eventSchema: z.ZodType = z.discriminatedUnion(
  'type',
  variants as [(typeof variants)[number], ...typeof variants],
);

/**
 * Reads one event from the log or the channel. Never throws on an unknown type or field: a newer worker may already
 * speak them. Throws only when the text is not JSON with an envelope.
 */
export function parseEvent(json: string): RunEvent {
  return JSON.parse(json) as RunEvent;
}
