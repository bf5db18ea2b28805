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
import { loopAction, loopPattern } from './agent/loop-guard.ts';
import { flowEvent, shownFlow } from './flow.ts';
import { toolChange, toolPart } from './mcp-pins.ts';
import { mediaHandle, mediaPart } from './media.ts';
import { budgetScope, microcents, runUsage, usage } from './money.ts';
import { reservedEvents } from './reserved.ts';
import { terminalEvents } from './plain/ends.ts';
import { lateralLeakFinding } from './agent/lateral-leak.ts';

export { isTerminal, type TerminalEventType } from './plain/ends.ts';

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
  /** So many text deltas right before it are left out: the archive keeps none. Without them the numbers have no gaps. */
  omitted: z.int().min(1).optional(),
  /** Fields of which parts are left out: they were too long. The run, and its steps, have them whole. */
  truncated: z.array(z.string()).optional(),
});
export type EventEnvelope = z.infer<typeof eventEnvelope>;

const text = z.string();
const count = z.int().min(0);
const stepNumber = z.int().min(1);
const args = z.record(text, z.unknown());
const call = { toolCallId: text, toolName: text };

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
  trust: text,
  sideEffectClass: text,
  sensitivity: text,
  sandboxPolicy: text.optional(),
});

/** One thing a suspended run waits for. */
export const pendingItem = z.object({
  kind: suspendReason,
  id: text,
  toolName: text.optional(),
  args: args.optional(),
  reason: text.optional(),
  requestedAt: text,
  expiresAt: text.optional(),
  /** `deferred`: it may also be answered with a result. */
  mode: z.enum(['approval', 'deferred']).optional(),
  /** How many different people have to grant it. Absent: one. */
  approvers: z.int().min(1).optional(),
  classification: classification.optional(),
  /** JSON Schema of the arguments that a decision may put in the place of the model's. Absent: only the worker checks them. */
  argsSchema: z.record(text, z.unknown()).optional(),
  /** Why the data-flow policy asks: which value, from where. The call is where it would go to. */
  flow: z.array(shownFlow).optional(),
  /** The server of the tool has changed it since it was accepted. Granting the call accepts the change. */
  toolChange: toolChange.optional(),
});
export type PendingItem = z.infer<typeof pendingItem>;

/** The same as it is shown: what is about a call has the name that a decision about it uses. */
export const pendingView = pendingItem.omit({ id: true, argsSchema: true }).extend({
  toolCallId: text.optional().describe('Of calls and questions: what a decision names.'),
  id: text.optional().describe('Of everything else: the account, run, model or media job that it waits for.'),
});
export type PendingView = z.infer<typeof pendingView>;

/** The limit at which a run gave the answer that it could, by its name. */
export const incompleteReason = z.enum([
  'maxSteps',
  'maxLlmCalls',
  'maxToolCalls',
  'budget',
  'wallTimeMs',
  'deadlineMs',
]);
export type IncompleteReason = z.infer<typeof incompleteReason>;
const incomplete = z.object({ reason: incompleteReason });
export type Incomplete = z.infer<typeof incomplete>;

export const runResult = z.object({
  text,
  output: z.unknown().optional(),
  structured: z.unknown().optional(),
  media: z.array(mediaPart).optional(),
  finishReason: finishReason.optional(),
  emptyResponse: z.boolean().optional(),
  /** It is what the run had found out when it reached a limit. */
  incomplete: incomplete.optional(),
});
export type RunResultBody = z.infer<typeof runResult>;

const approval = z.object({
  ...call,
  args,
  reason: text.optional(),
  mode: text,
  requestedAt: text,
  expiresAt: text.optional(),
  classification,
});

const decision = z.object({
  ...call,
  by: text.optional(),
  reason: text.optional(),
  edited: z.literal(true).optional(),
});

const moneyState = z.object({ spentMicrocents: microcents, limitMicrocents: microcents });

/** A body, and what the fact is. */
function event<const S extends z.ZodRawShape>(description: string, shape: S) {
  return z.object(shape).describe(description);
}

/**
 * Every event type with its body. Adding a line here makes the compiler point at every switch that must know it.
 */
export const eventBodies = {
  'run.queued': event(
    'The run is accepted: its record exists and its job is about to be in the queue. `failedAt`: it is redriven, and had failed then.',
    {
      kind: text,
      queuedAt: text,
      failedAt: text.optional(),
    },
  ),
  'execution.started': event(
    'The run was submitted with an execution id. Emitted once, before anything else of the run but `run.queued`.',
    {},
  ),
  'run.started': event(
    'A worker has the run for the first time, with `resumed` again after a wait, or with `redriven` again after it had failed. `attempt` counts the times that a worker took it.',
    {
      kind: text,
      model: text.optional(),
      attempt: z.int().min(1),
      resumed: z.boolean().optional(),
      redriven: z.literal(true).optional(),
      worker: text.optional(),
    },
  ),
  'run.recovered': event(
    'Another worker continues the run: the one before was lost (`lost`), or handed it over. `fromCheckpoint` is the number of finished steps.',
    {
      fromCheckpoint: count,
      previousWorker: text.optional(),
      worker: text.optional(),
      lost: z.literal(true).optional(),
    },
  ),
  'run.suspended': event(
    'The run waits and needs no worker. `pending` lists what for, `expiresAt` is when the wait for the first of it ends by itself.',
    { reason: suspendReason, pending: z.array(pendingView), expiresAt: text.optional() },
  ),
  'run.resumed': event('What the run waited for has come; a worker is about to take it.', { directiveSummary: text }),
  'run.timeout': event('The run reached its wall-clock limit; `run.failed` follows.', {
    elapsedMs: count,
    timeoutMs: count,
  }),
  'run.completed': event(
    'The run has its answer. `degraded`: no model answered, a tool failed, or a person denied a call, and the agent says that this takes the place of an answer.',
    {
      status: z.enum(['completed', 'degraded', 'blocked']),
      result: runResult,
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count,
      steps: count,
    },
  ),
  'run.failed': event(
    'The run ended with an error. `partial` is the text that was shown last; a run that never began has no `durationMs`.',
    {
      error: errorInfo,
      partial: text.optional(),
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count.optional(),
    },
  ),
  'run.cancelled': event(
    'The run was cancelled. `drained`: the step that was under way was finished first. `partial` is the text that was shown last.',
    {
      reason: text.optional(),
      partial: text.optional(),
      drained: z.boolean(),
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count.optional(),
    },
  ),

  'agent.start': event('The turn begins.', {}),
  'agent.end': event('The turn has ended, with the final text.', { output: text, status: text }),
  'agent.error': event('The turn has ended, with an error; `run.failed` follows.', { code: text, message: text }),
  'agent.thinking': event('The first reasoning of a step has arrived.', {}),
  'step.start': event(
    'A model call is about to be made. `modelSource` says where the choice of the model came from, `modelReason` which wish could not be met.',
    { stepNumber, model: text, modelSource: text, modelReason: text.optional() },
  ),
  'step.reset': event(
    'Forget the deltas of this step: its model call died with its worker (`recovered`), or its stream broke off (`stream_broke`), and is made again.',
    { stepNumber, reason: text },
  ),
  'step.end': event('The step is complete: the answer and the results of all its tool calls are in the journal.', {
    stepNumber,
    usage,
    finishReason,
  }),
  'text.delta': event('More text of the answer.', { delta: text, model: text }),
  'text.complete': event('The whole text of a step, once its answer is complete.', { text }),
  'reasoning.delta': event('More reasoning, where the provider shows it.', { delta: text, model: text }),
  'agent.response': event(
    'The answer, for the part that delivers it. A run in the background has none: no caller waits for it.',
    { text },
  ),
  'agent.model.fellback': event('Another model takes over. `from` and `to` are models.', {
    from: text,
    to: text,
    previousModel: text,
    nextModel: text,
    reason: z.enum(['rate-limit', 'capacity', 'context-length', 'transient']),
    stepNumber,
    attempt: z.int().min(1),
  }),
  'agent.cancelling': event(
    'A cancel of a run that has begun was asked for, and how. With `hold` a run that waits for people or for money goes on waiting.',
    { drain: z.boolean(), onPendingApprovals: z.enum(['deny', 'hold', 'fail']) },
  ),
  'agent.steered': event('The user wrote a message while the run worked; the next step sees it. A long text is cut.', {
    messageId: text,
    text,
  }),
  'agent.loop.detected': event(
    'The run goes in circles, and what is done about it. `pattern`: a call with the same arguments and results, errors of one kind of a tool, steps that bring nothing new, or agents that hand to each other. `action`: the model is warned, the tools are withdrawn for the rest of the turn, a person is asked, or the run fails. `count` says how often it has happened.',
    { stepNumber, pattern: loopPattern, action: loopAction, toolNames: z.array(text), count },
  ),
  'policy.decision': event(
    'A rule decided about a call. `subject` `llm_call`: the model call of the next step; `tool_call`: the call `toolCallId`; `subagent`: the agent `subagentName`, which the call or the fan-out would start. Calls that no rule is about have no event.',
    {
      subject: text,
      action: text,
      ruleId: text.optional(),
      reason: text.optional(),
      toolCallId: text.optional(),
      toolName: text.optional(),
      subagentName: text.optional(),
    },
  ),
  'llm.call': event(
    'One attempt against a model is over, or a model was skipped. `requestId` is what the provider was sent, `providerRequestId` what it calls the request itself. `tokensIn` includes what was read from and written to the cache of the provider.',
    {
      model: text,
      provider: text,
      requestId: text,
      providerRequestId: text.optional(),
      attemptNumber: z.int().min(1),
      outcome: z.enum(['succeeded', 'failed', 'skipped']),
      tokensIn: count,
      tokensOut: count,
      latencyMs: count,
      finishReason: finishReason.optional(),
      error: z.object({ kind: text, message: text, status: z.int().optional() }).optional(),
    },
  ),

  'cost.updated': event(
    'What an attempt cost, and the run so far. `priced` is false where no price is known; `usageReported` is false where the provider counted no tokens.',
    {
      model: text,
      inputTokens: count,
      outputTokens: count,
      cachedTokens: count.optional(),
      cacheWriteTokens: count.optional(),
      costMicrocents: microcents,
      cumulativeCostMicrocents: microcents,
      attemptNumber: z.int().min(1).optional(),
      priced: z.boolean(),
      usageReported: z.boolean(),
    },
  ),
  'budget.warning': event(
    'The next model call may pass the cap, and the budget says to go on. Emitted once per worker that has the run.',
    { ...moneyState.shape, thresholdPct: z.number() },
  ),
  'budget.paused': event(
    'The next model call could pass the cap of this account, and the budget says to wait: for a decision, a top-up, or cheaper calls of others. `run.suspended` follows.',
    { ...moneyState.shape, gateId: text, scope: budgetScope, accountId: text },
  ),
  'usage.recorded': event(
    'What the whole run has used. Emitted once, at the end of a run that a worker had. `promptChars` are those of the system text of its last turn, `mcpServers` and `capabilities` count what the agent names; a run that is cancelled while it waits has none of the three.',
    {
      usage: runUsage,
      costMicrocents: microcents,
      durationMs: count.optional(),
      steps: count,
      toolCalls: count,
      promptChars: count.optional(),
      mcpServers: count.optional(),
      capabilities: count.optional(),
    },
  ),

  'tool.call.start': event('The model begins to write a tool call.', { ...call }),
  'tool.call.end': event('The model has written a tool call. Credentials in the arguments are masked.', {
    toolCallId: text,
    finalArgs: args,
  }),
  'tool.call.incomplete': event('The model was cut off while it wrote this call. It never runs.', { ...call }),
  'tool.execute.start': event(
    'A tool starts. `relayed`: the provider runs it, not this worker. `attemptNumber` is that of the model call that asked for it.',
    {
      ...call,
      args,
      summary: text,
      attemptNumber: z.int().min(1).optional(),
      parentToolCallId: text.optional(),
      relayed: z.literal(true).optional(),
    },
  ),
  'tool.execute.progress': event('What the tool says about how far it is.', { toolCallId: text, data: z.unknown() }),
  'tool.execute.partial': event('A part of the result that the tool shows early.', {
    toolCallId: text,
    data: z.unknown(),
  }),
  'tool.execute.end': event(
    'The tool has answered. `flagged` names what in it looks like instructions to the model; by trust it was taken out or only noticed.',
    {
      ...call,
      success: z.literal(true),
      outputSummary: text.max(500),
      durationMs: count,
      flagged: z.array(text).optional(),
      parentToolCallId: text.optional(),
      resultHandle: text.optional(),
      relayed: z.literal(true).optional(),
    },
  ),
  'tool.execute.error': event('The call has no result: the error that the model gets instead.', {
    ...call,
    success: z.literal(false),
    error: z.object({ kind: toolErrorKind, message: text, hint: text }),
    durationMs: count,
    flagged: z.array(text).optional(),
    parentToolCallId: text.optional(),
    relayed: z.literal(true).optional(),
  }),
  'tool.outcome_unknown': event(
    'A call that may or may not have taken effect. It is not repeated. `key` is its idempotency key.',
    { ...call, key: text },
  ),
  'tool.approval.requested': approval.describe(
    'A call waits for a person. `mode` `deferred`: it may also be answered with a result. `run.suspended` follows.',
  ),
  'tool.approval.granted': decision.describe('A person granted the call: it runs now. `edited`: with other arguments.'),
  'tool.approval.denied': decision.describe('A person denied the call, or none decided in time (`expired`).'),

  'dataflow.flagged': event(
    'A call would be stopped by the data-flow policy, which only watches (`shadow`). The call runs. Findings name no content.',
    flowEvent,
  ),
  'dataflow.asked': event('The data-flow policy has a person decide about a call (`confirm`).', flowEvent),
  'dataflow.blocked': event(
    'The data-flow policy stopped a call (`enforce`), or a person did (`confirm`, `by`).',
    flowEvent,
  ),
  'dataflow.declassified': event(
    'A call runs in spite of what was found: its tool is declassified, or a person granted it (`by`).',
    flowEvent,
  ),

  handoff: event('Another agent goes on, with what the filter let through of the conversation.', {
    fromAgentId: text,
    toAgentId: text,
    filter: z.unknown().optional(),
  }),
  'subagent.event': event(
    'An event of a run that works for this one, or for one of those. Its deltas are in its own log only.',
    { childRunId: text, childDepth: z.int(), event: z.unknown() },
  ),
  'agent.fanout.spawned': event(
    'Several agents are asked, some of them perhaps later than others. `children` names them in their order.',
    { children: z.array(text) },
  ),
  'agent.fanout.merged': event(
    'All of them have ended, and their answers are one. `statuses` (`completed`, `failed`, `budget_exceeded`, `cancelled`) and `weights`, their shares where a merge guard measured them, are in the order of `children`.',
    { strategy: text, children: z.array(text), statuses: z.array(text), weights: z.array(z.number()).optional() },
  ),
  'agent.lateral-leak.detected': event(
    'A guard found something in a text that crosses between agents or leaves the run. Each finding is emitted once, with what the guard did about it; the text is in no event.',
    lateralLeakFinding,
  ),
  'agent.evaluator.iteration': event(
    'An answer was evaluated. One that did not pass goes back with what is wrong with it.',
    { iteration: z.int().min(1), passed: z.boolean(), score: z.number().optional() },
  ),
  'agent.evaluator.converged': event(
    'No further answer is asked for. `termination`: `pass`, `maxIterations`, `generator-exhausted` or `cancelled`. `iterations` counts the answers that were evaluated.',
    { termination: text, iterations: count },
  ),

  'context.compacted': event(
    'A summary took the place of the older part of the conversation. Tokens are estimates of the next request before and after; `hooksFiredCount` counts hooks that did not fail; `source` says what asked for it: the length, a caller, or (`pre-step`) a provider that refused the length.',
    {
      beforeTokens: count,
      afterTokens: count,
      summaryTokens: count,
      durationMs: count,
      hooksFiredCount: count,
      source: compactionSource,
    },
  ),
  'agent.progress.written': event('A progress note was written. Its text is in no event.', { ref: text, sha256: text }),
  'agent.progress.read': event('A progress note was read.', { ref: text, sha256: text }),
  'file.generated': event('A file of the run is kept. `GET /v1/media/:sha256` has its bytes.', {
    handle: mediaHandle,
    mediaType: text.optional(),
  }),

  'capability.file_sent': event(
    'A capability sends a file, by its path or by the handle of a result. A subscriber delivers it.',
    { path: text.optional(), handle: text.optional(), caption: text.optional(), fileType: text },
  ),
  'capability.note_shared': event('A capability shares a note.', { title: text, slug: text, message: text.optional() }),
  'capability.pin_changed': event('A capability changed what is pinned.', {}),
  'capability.user_notified': event('A capability has a message for the user.', { message: text }),

  'capability.skipped': event(
    'The agent names a capability that its worker does not have, and says to go on without it. Emitted when the agent begins.',
    { name: text },
  ),

  'mcp.tools_changed': event(
    'An MCP server has other tools than at its first use, and `pin` of its definition says what becomes of them. Emitted when a worker begins or continues the run, and when the server changes them meanwhile. `more` counts those that are not named.',
    {
      server: text,
      pin: z.enum(['refuse', 'confirm']),
      tools: z.array(z.object({ tool: text, isNew: z.boolean(), parts: z.array(toolPart) })),
      more: count.optional(),
    },
  ),
  'mcp.tool_accepted': event(
    'A person has granted a call of a tool that its server had changed: from now on it may be as it is now.',
    { ...call, server: text, tool: text, digest: text, by: text.optional() },
  ),

  'node.started': event('The run is a node of a workflow, named by `nodeId`, and begins.', {}),
  'node.completed': event(
    'The node has its output: a text, the value that its schema asks for, or media. `run.completed` follows.',
    { output: z.unknown(), tokensUsed: z.object({ input: count, output: count, model: text }) },
  ),
  'node.failed': event('The node failed for good; `run.failed` follows.', { error: errorInfo }),
  'node.retrying': event(
    'The node failed and is tried again after a wait. `attemptNumber` counts the retries from 1.',
    { attemptNumber: z.int().min(1), error: errorInfo, delayMs: count },
  ),
  'input.file_fetched': event('A file of the input was fetched from its URL, once for the run.', {
    name: text,
    mediaType: text,
    bytes: count,
    handle: text,
  }),
  'input.file_expired': event(
    'A file of the conversation is past its time or was removed. The model is shown a note in its place.',
    { name: text, mediaType: text.optional() },
  ),
  'media_job.submitted': event('A provider works on the media. The run waits without a worker and asks now and then.', {
    jobId: text,
    provider: text,
    model: text,
  }),

  'task.start': event('A task begins or, with `resumed`, goes on with the answer to its question.', {
    taskId: text,
    intent: text.optional(),
    resumed: z.literal(true).optional(),
  }),
  'task.readiness': event(
    'What the task needs to know was compared with what is known. `missing` has ids, also of what is only wished for.',
    { ready: z.boolean(), missing: z.array(text) },
  ),
  'task.questions': event('What people have to answer before the task can go on.', { questions: z.array(text) }),
  'task.acquisition': event('How what is missing could be had without people. Nothing was done about it.', {
    plan: z.array(text),
  }),
  'task.observe': event('The adapter has observed how things stand. The state is in no event of its own.', {}),
  'task.validate': event('What was observed has been checked.', { evals: z.array(z.unknown()) }),
  'task.decide': event('The adapter has decided: `act`, `ask` or `stop`. An action of more than 32 KiB is `null`.', {
    decision: z.unknown(),
  }),
  'task.act': event(
    'An action has ended. `costMicrocents` is what it cost beside what `cost.updated` says; a result of more than 32 KiB is `null`.',
    { outcome: z.unknown() },
  ),
  'task.step': event(
    'A step is complete: decision, outcome, states and evals before and after. One of more than 32 KiB has only its outline and is `cut`.',
    { record: z.unknown() },
  ),
  'task.end': event(
    'The task has ended as `completed`, `failed`, `blocked` or `aborted`. `stoppedBy` says what ended it.',
    { status: text, pass: z.boolean(), score: z.number().optional(), reason: text, stoppedBy: text },
  ),

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

const lifecycleTypes: ReadonlySet<string> = new Set<EventType>([
  'run.queued',
  'run.started',
  'run.suspended',
  'run.resumed',
  ...terminalEvents,
]);

/** The events that also go to the lifecycle stream. */
export function isLifecycle(type: string): boolean {
  return lifecycleTypes.has(type);
}

/** Events that carry streamed text: merged on the way out, and left out of the firehose. */
export function isDelta(type: string): boolean {
  return type === 'text.delta' || type === 'reasoning.delta' || type === 'tool.call.delta';
}

/** The schema of each event by its type. */
export const eventVariants: ReadonlyMap<string, z.ZodObject> = new Map(
  Object.entries(eventBodies).map(([type, body]) => [
    type,
    z.object({ ...eventEnvelope.shape, type: z.literal(type), ...body.shape }),
  ]),
);

/** Strict check of one event, for tests and for the reference page; subscribers use {@link parseEvent}. */
export const eventSchema: z.ZodType = z.discriminatedUnion('type', [...eventVariants.values()] as [
  z.ZodObject,
  ...z.ZodObject[],
]);

/**
 * Reads one event from the log or the channel. Never throws on an unknown type or field: a newer worker may already
 * speak them. Throws only when the text is not JSON with an envelope.
 */
export function parseEvent(json: string): RunEvent {
  return JSON.parse(json) as RunEvent;
}
