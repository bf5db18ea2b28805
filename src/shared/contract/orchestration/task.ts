import { z } from 'zod';
import { publicId } from '../../base/ids.ts';
import { jsonText } from '../../base/json.ts';
import { type ErrorInfo, errorInfo } from '../../base/errors.ts';
import { type RunUsage, budgetCap, microcents } from '../money.ts';

/**
 * A task: an adapter of the user's observes something, validates it, decides and acts, until it is done or stopped. The
 * loop is ours. What adapters answer, what is recorded and what comes out.
 */

export const taskStateVersion = 1;

/** As JSON, in bytes: what an adapter observes, and what an action answers. */
export const maxTaskStateBytes = 256 * 1024;
export const maxTaskActionBytes = 64 * 1024;
export const maxTaskEvalsBytes = 64 * 1024;

const text = z.string().max(2_000);
const score = z.number().min(0).max(1);
const count = z.int().min(0);

/** One check of a state. A score is between 0 and 1, the best. */
export const taskEval = z.strictObject({
  id: z.string().min(1).max(128),
  passed: z.boolean(),
  score: score.optional(),
  severity: z.enum(['info', 'warning', 'error', 'critical']).optional(),
  detail: text.optional(),
});
export type TaskEval = z.infer<typeof taskEval>;

export const taskEvals = z
  .array(taskEval)
  .max(100)
  .refine((evals) => new Set(evals.map(({ id }) => id)).size === evals.length, 'two evals have the same id');

const actDecision = z.strictObject({ type: z.literal('act'), action: z.json(), reason: text.optional() });
const askDecision = z.strictObject({
  type: z.literal('ask'),
  question: z.string().trim().min(1).max(4_000),
  reason: text.optional(),
});
/** `pass` absent: it has passed when there are evals and none of them failed, but for `info` and `warning`. */
const stopDecision = z.strictObject({
  type: z.literal('stop'),
  reason: text,
  pass: z.boolean().optional(),
  score: score.optional(),
});

/** What an adapter decides to do next. */
export const taskDecision = z.discriminatedUnion('type', [actDecision, askDecision, stopDecision]);
export type TaskDecision = z.infer<typeof taskDecision>;

/** What became of an action, or of a question: then the result is the answer. */
export const taskActionOutcome = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    result: z.unknown(),
    /** What `getActionCostUsd` says. Costs that events report are not in it. */
    costMicrocents: microcents.optional(),
    durationMs: count,
  }),
  z.strictObject({
    ok: z.literal(false),
    error: z.strictObject({ code: z.string(), message: z.string() }),
    durationMs: count,
  }),
]);
export type TaskActionOutcome = z.infer<typeof taskActionOutcome>;

/** One round: a decision, what came of it, and how things stood before and after. */
export const taskStep = z.strictObject({
  stepNumber: z.int().min(1),
  decision: z.discriminatedUnion('type', [actDecision, askDecision]),
  beforeState: z.unknown(),
  afterState: z.unknown(),
  beforeEvals: z.array(taskEval),
  afterEvals: z.array(taskEval),
  outcome: taskActionOutcome,
  startedAt: z.string(),
  endedAt: z.string(),
  /** Its states, evals, action and result were left out, because they would have been too large. */
  cut: z.literal(true).optional(),
});
export type TaskStep = z.infer<typeof taskStep>;

/** Something that has to be known before a task may begin. */
export const knowledgeRequirement = z.strictObject({
  id: publicId,
  description: z.string().trim().min(1).max(2_000),
  /** Without it nothing is done. Otherwise its absence is only reported. */
  required: z.boolean().default(true),
  /** What to ask a person. Default: the description. */
  question: z.string().trim().min(1).max(4_000).optional(),
  /** How to get it without a person: a step of the acquisition plan. */
  acquire: z.string().trim().min(1).max(2_000).optional(),
});
export type KnowledgeRequirement = z.infer<typeof knowledgeRequirement>;

/** Distinct ids, so that an answer has one place to go. */
export const knowledgeRequirements = z
  .array(knowledgeRequirement)
  .max(64)
  .refine((all) => new Set(all.map(({ id }) => id)).size === all.length, 'two requirements have the same id');

function json(maxBytes: number) {
  return z
    .json()
    .refine((value) => Buffer.byteLength(jsonText(value)) <= maxBytes, `at most ${maxBytes} bytes as JSON`);
}

/** What is to be done. */
export const taskSpec = z.strictObject({
  /** Names the task in events, ledger rows and idempotency keys. */
  id: publicId,
  intent: z.string().max(4_000).default(''),
  input: json(maxTaskStateBytes).default(null),
  requirements: knowledgeRequirements.default([]),
});
export type TaskSpec = z.infer<typeof taskSpec>;

const budgetShape = {
  maxSteps: z.int().min(1).max(1_000).default(8),
  /** Time in which a task waits for an answer does not count. */
  maxWallMs: z.int().min(1).max(86_400_000).default(300_000),
  maxCostMicrocents: z.int().optional(),
  maxCostUsd: z.number().optional(),
};
const oneCap = 'give maxCostMicrocents or maxCostUsd, not both';

function hasOneCap(b: { readonly maxCostMicrocents?: unknown; readonly maxCostUsd?: unknown }): boolean {
  return b.maxCostMicrocents === undefined || b.maxCostUsd === undefined;
}

/** Where a task ends at the latest. A cost of zero or less, or none, means no cap. */
export const taskBudget = z.strictObject(budgetShape).refine(hasOneCap, oneCap);

/** The most that an adapter gives a task which is asked for as a run. Absent: as much as any request. */
export const taskLimits = z
  .strictObject({
    maxSteps: budgetShape.maxSteps.unwrap().optional(),
    maxWallMs: budgetShape.maxWallMs.unwrap().optional(),
    maxCostMicrocents: budgetShape.maxCostMicrocents,
    maxCostUsd: budgetShape.maxCostUsd,
  })
  .refine(hasOneCap, oneCap);
export type TaskLimits = z.infer<typeof taskLimits>;

/** When a task that gets nowhere is stopped. Absent: never. */
export const taskStopPolicies = z.strictObject({
  /** So many steps in a row that changed neither the state nor the score. */
  maxNoProgressSteps: z.int().min(1).optional(),
  /** The same action decided so many times in a row. The last of them is not carried out. */
  maxRepeatedActions: z.int().min(1).optional(),
  /** A smaller change of the score is none. */
  minScoreDelta: z.number().min(0).max(1).default(0.001),
});

/** How a task runs. All of it is JSON, so that it can be sent somewhere. */
export const taskSettings = z.strictObject({
  task: taskSpec,
  /** What is known, by the id of the requirement. `null` is not known. */
  knowledge: z
    .record(publicId, z.json())
    .refine((known) => Buffer.byteLength(jsonText(known)) <= maxTaskStateBytes, 'is too large')
    .default({}),
  budget: taskBudget.prefault({}),
  stopPolicies: taskStopPolicies.prefault({}),
  /** After an action that failed the adapter decides again, or the task has failed. */
  onActionFailure: z.enum(['continue', 'stop']).default('continue'),
});
export type TaskSettings = z.infer<typeof taskSettings>;
export type TaskSettingsInput = z.input<typeof taskSettings>;

/** The cap in microcents, or undefined when there is none. */
export function taskCap({ budget }: TaskSettings): number | undefined {
  return budgetCap(budget);
}

/**
 * `policy`: the adapter decided to stop, or needs to know more; `stop-policy`: its `shouldStop` or a limit for tasks that
 * get nowhere; `budget`: steps, time or money; `abort`: the signal; `runtime-error`: the adapter failed.
 */
export const taskStoppedBy = z.enum(['policy', 'stop-policy', 'budget', 'abort', 'runtime-error']);
export type TaskStoppedBy = z.infer<typeof taskStoppedBy>;

const ended = {
  taskId: publicId,
  pass: z.boolean(),
  /** It came to an end of its own: it was not cut off by a budget, an abort or an error. */
  completed: z.boolean(),
  reason: z.string(),
  score: score.optional(),
  steps: z.array(taskStep),
  /** `null` when nothing was observed. */
  finalState: z.unknown(),
  finalEvals: z.array(taskEval),
  wallMs: count,
  /** The same as `costMicrocents`, for people. */
  spentCostUsd: z.number().min(0),
  costMicrocents: microcents,
  stoppedBy: taskStoppedBy,
};

/** How a task ended. `completed` has passed, `failed` has not. */
export const taskResult = z.discriminatedUnion('status', [
  z.strictObject({ status: z.literal('completed'), ...ended }),
  z.strictObject({ status: z.literal('failed'), ...ended, error: errorInfo.optional() }),
  z.strictObject({ status: z.literal('aborted'), ...ended }),
  z.strictObject({
    status: z.literal('blocked'),
    ...ended,
    /** Ids of the requirements that are not met. */
    missing: z.array(z.string()),
    questions: z.array(z.string()),
    acquisitionPlan: z.array(z.string()),
  }),
]);
export type TaskResult = z.infer<typeof taskResult>;

/** What a task cost, while it runs and afterwards. `blocked` tasks are `completed`, aborted ones `cancelled`. */
export const ledgerRow = z.strictObject({
  id: publicId,
  taskId: publicId.optional(),
  status: z.enum(['running', 'completed', 'failed', 'cancelled']),
  /** Tokens of prompts, cached ones included. */
  tokensIn: count,
  tokensOut: count,
  costMicrocents: microcents,
  llmCalls: count,
  /** Without the time in which it waited for an answer. */
  wallMs: count,
  startedAt: z.string(),
  completedAt: z.string().optional(),
  /** The code of the error that ended it. */
  error: z.string().optional(),
});
export type LedgerRow = z.infer<typeof ledgerRow>;

/** Everything that a task which waits for an answer needs to go on, anywhere. As private as what its adapter observes. */
export const taskState = z.strictObject({
  version: z.literal(taskStateVersion),
  adapterId: publicId.optional(),
  settings: taskSettings,
  question: askDecision,
  state: z.unknown(),
  evals: z.array(taskEval),
  steps: z.array(taskStep),
  /** Digest of the last action, and how often it was decided in a row. */
  lastAction: z.string().optional(),
  repeated: count,
  noProgress: count,
  askedAt: z.string(),
  elapsedMs: count,
  /** Events that were emitted so far. */
  events: count,
  row: ledgerRow,
});
export type TaskState = z.infer<typeof taskState>;

/** A result, or a question that keeps the task waiting: `resumeAgentTask` goes on with the state and an answer. */
export type TaskOutcome =
  | TaskResult
  | {
      readonly status: 'suspended';
      readonly taskId: string;
      readonly question: string;
      readonly state: TaskState;
    };

const maxDataBytes = 64 * 1024;

/** What a task file says. */
export const taskFile = z.strictObject({
  title: z.string().trim().min(1).max(200),
  description: z.string().max(100_000).default(''),
  /** Whatever else the prompt is to say about it, or a prompt builder to know. */
  data: z
    .json()
    .refine((data) => Buffer.byteLength(jsonText(data)) <= maxDataBytes, `at most ${maxDataBytes} bytes as JSON`)
    .optional(),
});

/** Something that a run works on beside its input, written by the operator. */
const taskDefinition = taskFile.extend({ id: publicId });
export type TaskDefinition = z.output<typeof taskDefinition>;

/** What the row says of a task whose run has this status. */
const statuses = {
  queued: 'running',
  running: 'running',
  suspended: 'running',
  completed: 'completed',
  degraded: 'completed',
  blocked: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
} as const satisfies Record<string, LedgerRow['status']>;

/** What the row is made of; the record of a run has it. */
interface TaskRun {
  readonly runId: string;
  readonly status: keyof typeof statuses;
  readonly usage?: RunUsage | undefined;
  readonly costMicrocents: number;
  readonly workedMs?: number | undefined;
  readonly createdAt: string;
  readonly startedAt?: string | undefined;
  readonly endedAt?: string | undefined;
  readonly error?: ErrorInfo | undefined;
  readonly result?: { readonly output?: unknown } | undefined;
}

const ownEnd = z.object({ status: z.string(), wallMs: z.int().min(0) });

/**
 * The ledger row of a run that is a task, as `runAgentTask` keeps one: its cost is the sum of what the events say. There is
 * one for each, because it is another view of the record.
 */
export function taskLedgerOf(run: TaskRun): LedgerRow {
  const { runId, usage, costMicrocents, createdAt, startedAt = createdAt, endedAt, error, result } = run;
  const end = ownEnd.safeParse(result?.output).data;
  const models = Object.values(usage?.byModel ?? {});
  return {
    id: runId,
    taskId: runId,
    // A run that came to its end has failed as a task where that did not pass.
    status: end?.status === 'failed' ? 'failed' : statuses[run.status],
    tokensIn: models.reduce((sum, { input, cached, cacheWrite }) => sum + input + cached + cacheWrite, 0),
    tokensOut: models.reduce((sum, { output }) => sum + output, 0),
    costMicrocents,
    llmCalls: models.reduce((sum, { attemptCount }) => sum + attemptCount, 0),
    wallMs: end?.wallMs ?? run.workedMs ?? 0,
    startedAt,
    ...(endedAt !== undefined && { completedAt: endedAt }),
    ...(error && { error: error.code }),
  };
}
