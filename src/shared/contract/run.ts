import { maxMetadataChars, maxMetadataKeys } from './plain/metadata.ts';
import { clip } from '../base/text.ts';
import { reservedJobFields } from './reserved.ts';
import { z } from 'zod';
import { limitsOverride, maxDeadlineMs } from './agent/agent.ts';
import { leakReport, leakWatch } from './agent/lateral-leak.ts';
import { deadlineOf } from './deadline.ts';
import { decisionView, decisionViews, pendingViewOf, type DecisionRecord } from './decisions.ts';
import { errorInfo, RunError } from '../base/errors.ts';
import {
  evaluateRequest,
  fanOutRequest,
  taskRequest,
  type EvaluateRequest,
  type FanOutRequest,
  type TaskRequest,
} from './orchestration/requests.ts';
import { pendingItem, pendingView, runResult } from './event.ts';
import { publicId, runId } from '../base/ids.ts';
import { attempt } from './journal/journal.ts';
import { jsonText, storedJson } from '../base/json.ts';
import { inputFiles, inputPart, joinedParts, maxInputFiles, maxInputParts, type InputFile } from './input-parts.ts';
import { mediaRequest } from './media.ts';
import { flowLabel, message } from './message.ts';
import { unfinishedWork } from './unfinished.ts';
import { budget, budgetOnExceed, microcents, runUsage } from './money.ts';
import { outputSchema, runNode, type RunNode } from './node.ts';
import { isTerminalStatus, runStatuses } from './plain/ends.ts';
import { runQueue } from './queues.ts';
import { addedInstructions, history } from './request/history.ts';
import { wireOrigin } from './request/wire.ts';
import { taskLedgerOf, ledgerRow } from './orchestration/task.ts';
import { onBusy } from './thread/thread.ts';

export { isTerminalStatus, type RunStatus } from './plain/ends.ts';

export const maxInputBytes = 256 * 1024;
export const maxBulk = 10_000;
export const maxBatchLines = 50_000;

export const runStatus = z.enum(runStatuses);

export const runOverrides = z.strictObject({
  model: z.string().min(1).max(200).optional(),
  maxTurns: z.int().min(1).max(10_000).optional().describe('Sets `limits.maxSteps` of the run.'),
  background: z.boolean().optional(),
  maxOutputTokens: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe('Tokens of each answer of a model, at most. Lowers what the agent has, and never raises it.'),
});

/** What a caller notes beside a run, to find it again. */
const labels = z
  .record(z.string().min(1).max(maxMetadataChars), z.string().max(maxMetadataChars))
  .refine((m) => Object.keys(m).length <= maxMetadataKeys, `at most ${maxMetadataKeys} keys`);

/** A record of zod leaves out the key `__proto__` without a word: a filter would then find more than was asked for. */
export const metadata = z.preprocess((value, context) => {
  if (typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__'))
    context.addIssue({ code: 'custom', message: 'a key must not be __proto__' });
  return value;
}, labels) as unknown as typeof labels;

/** The position of a turn in its session, and whose turn it is. Turns are counted from 0. */
export const chatPosition = z.strictObject({
  turnIndex: z.int().min(0),
  userId: z.string().min(1).max(128).optional(),
});

const inputText = z
  .string()
  .refine((text) => Buffer.byteLength(text) <= maxInputBytes, `at most ${maxInputBytes} bytes`);

/** The user message of a turn as a caller gives it: a text, or parts. */
export const runInput = z.union([
  inputText,
  z
    .array(inputPart)
    .min(1)
    .max(maxInputParts)
    .superRefine((parts, ctx) => {
      const { text, files } = joinedParts(parts);
      const refuse = (message: string) => ctx.addIssue({ code: 'custom', message });
      if (Buffer.byteLength(text) > maxInputBytes) refuse(`must have at most ${maxInputBytes} bytes of text`);
      if (files.length > maxInputFiles) refuse(`must have at most ${maxInputFiles} files`);
    }),
]);
export type RunInput = z.infer<typeof runInput>;

const whichAgent = {
  agent: publicId,
  /** The `version` that the agent must have when the run begins, as it is in its definition; else it is refused, or fails. Default: any. */
  agentVersion: z.string().min(1).max(64).optional(),
};

const asked = {
  /** What was said before, oldest first, by the word of the caller. In a thread it is written there before the input. */
  history: history.optional(),
  /** Added behind the agent's own instructions, as it stands. Not for an agent that takes over. */
  instructions: addedInstructions.optional(),
  /** JSON Schema of the answer, in place of the agent's. The model is asked for it; what it answers has to be JSON. */
  outputSchema: outputSchema.optional(),
  thread: publicId.optional(),
  /** Before its first model call the older part of its thread is replaced by a summary, however long it is. The agent needs `compaction`. */
  compact: z.literal(true).optional(),
  /** What becomes of this run while another one has the lock of its thread. Default `queue`. */
  onBusy: z.enum([...onBusy.options, 'steer']).optional(),
  /** Runs of one batch share its budget and are counted together. */
  batch: publicId.optional(),
  executionId: publicId.optional(),
  sessionId: publicId.optional(),
  /** The run is a turn of a chat. */
  chat: chatPosition.optional(),
  overrides: runOverrides.optional(),
  limits: limitsOverride.optional(),
  budget: budget.optional(),
  /**
   * `limits` and `budget` apply as they are given, also where the agent has smaller ones. Needs the scope `admin`. What the
   * worker and the tenant may use bounds them still.
   */
  raise: z.boolean().optional(),
  priority: z
    .int()
    .min(0)
    .max(2_097_151)
    .optional()
    .describe('Order within the queue: runs with 0 or without one come first, then 1 before 2.'),
  delayMs: z
    .int()
    .min(0)
    .max(365 * 86_400_000)
    .optional(),
  /** The run fails with `deadline_exceeded` when it has not ended so long after its acceptance, whatever it does or waits for. */
  deadlineMs: z.int().min(1).max(maxDeadlineMs).optional(),
  /** The run fails with `queue_expired` when no worker has begun it so long after its acceptance and its delay. Default: a setting. */
  queueTtlMs: z.int().min(1).max(maxDeadlineMs).optional(),
  queue: runQueue.optional(),
  metadata: metadata.optional(),
  /** It is in no thread, and ten minutes after its end nothing of it is kept. */
  store: z.literal(false).optional(),
  /** Set by the routes of OpenAI's API. */
  wire: wireOrigin.optional(),
  /** The run is a node of a workflow: its template makes the user message, and `input` is `{{ input }}` there. */
  node: runNode.optional(),
  /** The task that it works on, by the name of its file. */
  task: publicId.optional(),
  /** For models that make images, sound or video. */
  media: mediaRequest.optional(),
  /** In place of a turn: several agents are asked at the same time. `agent` is the one whose budget applies, and which is shown. */
  fanOut: fanOutRequest.optional(),
  /** In place of a turn: an agent is asked until its answer is good enough. */
  evaluate: evaluateRequest.optional(),
  /** In place of a turn: a task over an adapter that workers have. Then no worker has to know `agent`. */
  taskRun: taskRequest.optional(),
};

/** What a caller asks for. `input` is the user message of the turn. Delays and times are in milliseconds. */
export const runRequestBody = z.strictObject({ ...whichAgent, input: runInput, ...asked });
export type RunRequestInput = z.input<typeof runRequestBody>;
/** The same, with defaults in place. */
export type AskedRun = z.output<typeof runRequestBody>;

/** What was asked for as a run keeps it: the text of its input, and beside it the files that stood among the text. */
export const runRequest = z.strictObject({
  ...whichAgent,
  input: inputText,
  files: inputFiles.optional(),
  ...asked,
});
export type RunRequest = z.output<typeof runRequest>;

/**
 * The one kind of work that a request asks for. `media` is none of its own: it says what a model that makes media is to make,
 * and whether the model of a turn or a node does so is known only on the worker.
 */
export type RequestedWork =
  | { readonly kind: 'turn' }
  | { readonly kind: 'node'; readonly node: RunNode }
  | OrchestratedWork;

/** Done by an orchestration, in place of a turn. */
export type OrchestratedWork =
  | { readonly kind: 'fanOut'; readonly fanOut: FanOutRequest }
  | { readonly kind: 'evaluate'; readonly evaluate: EvaluateRequest }
  | { readonly kind: 'task'; readonly task: TaskRequest };

export function workOf({
  node,
  fanOut,
  evaluate,
  taskRun: task,
}: Pick<RunRequest, 'node' | 'fanOut' | 'evaluate' | 'taskRun'>): RequestedWork {
  if (fanOut) return { kind: 'fanOut', fanOut };
  if (evaluate) return { kind: 'evaluate', evaluate };
  if (task) return { kind: 'task', task };
  return node ? { kind: 'node', node } : { kind: 'turn' };
}

export function isOrchestrated(work: RequestedWork): work is OrchestratedWork {
  return work.kind !== 'turn' && work.kind !== 'node';
}

export const jobKind = z.enum(['agent.turn', 'node', 'chat.turn', 'task', 'fanout.child', 'resume', 'postrun']);
export type JobKind = z.infer<typeof jobKind>;

export const jobVersion = 1;

/** BullMQ job data: only a reference. Everything about the run is in its record. */
export const runJobSchema = z.object({
  v: z.int().min(1),
  kind: jobKind,
  runId,
  segment: z.int().min(0),
  ...reservedJobFields,
});
export type RunJob = z.infer<typeof runJobSchema>;

/** BullMQ options of a run's job. Attempts are for lost workers and a lost Redis; a run's own errors never use one up. */
export const jobOptions = {
  attempts: 10,
  backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 },
  removeOnComplete: { age: 3_600, count: 1_000 },
  removeOnFail: { age: 604_800, count: 5_000 },
};

/** How deep runs may work for each other, hand-overs between agents included. */
export const maxDepth = 3;

/** The run that another one works for, and what follows from that. */
export const lineage = z.object({
  runId,
  /** 1 for the child of a run that has no parent. */
  depth: z.int().min(1).max(maxDepth),
  /** Which of its events its parents get: all but deltas, the end, or none. */
  expose: z.enum(['all', 'final', 'none']).default('all'),
  /** What the events of each parent have in common, for those that get this run's events; nearest first. */
  ancestors: z.array(z.record(z.string(), z.unknown())).max(maxDepth),
  /** The conversation that it begins with. */
  history: z.array(message).optional(),
  /** Caps of its parents. What this run spends counts there, too. */
  payers: z
    .array(z.object({ runId, capMicrocents: microcents, onExceed: budgetOnExceed }))
    .max(maxDepth)
    .default([]),
  /** The batch of the topmost run, whose budget pays. */
  batch: publicId.optional(),
  /** Names of the tool secrets that this run may use; absent: what its tools may ask for by themselves. */
  secrets: z.array(z.string()).optional(),
  /** How long it may be on workers, in milliseconds. */
  maxWorkMs: z.int().min(1).optional(),
  /** What the run that asks had read when its model wrote the input and the history. Absent: an older worker asks, and it is not known. */
  flow: flowLabel.optional(),
  /** What guards of its parents watch for. Absent: none does. */
  leaks: leakWatch.optional(),
});
export type Lineage = z.output<typeof lineage>;

/**
 * What a run does on its worker, for the worker that finds it after a crash.
 *
 * - idle: no call of a tool; it may be in a model call
 * - calls: calls of its step run, beside those of other runs
 * - watched: what it does now runs while no other suspect on the worker does anything
 * - waiting: it waits for others that are watched
 */
export const activity = z.enum(['idle', 'calls', 'watched', 'waiting']);
export type Activity = z.infer<typeof activity>;

export const runRecordVersion = 1;

/** A run as it is kept in Redis and as `GET /v1/runs/:id` shows it. Times are ISO strings, money is microcents. */
export const runRecord = z.object({
  v: z.literal(runRecordVersion),
  runId,
  tenant: z.string(),
  kind: jobKind,
  status: runStatus,
  request: runRequest,
  /** The id of the HTTP request that it came with, for the lines of logs. */
  requestId: z.string().optional(),
  parent: lineage.optional(),
  queue: z.string(),
  segment: z.int().min(0),
  createdAt: z.string(),
  updatedAt: z.string(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  /** Its files, once a worker has fetched what is behind their URLs, and whose word they are. Absent: as the request has them. */
  files: inputFiles.optional(),
  /** A deadline that is not the request's own: the agent's, or that of a redrive. */
  deadlineAt: z.string().optional(),
  /** In place of what `queueTtlMs` says, of one that was redriven. */
  startBy: z.string().optional(),
  lastSequence: z.int().min(0),
  worker: z.string().optional(),
  /** Digest of the definition that its agent had when a worker began it. Absent: it never began, or is not archived. */
  definition: z.string().optional(),
  /** `1` from a claim to the release: a run that is to be claimed then has lost its worker. */
  held: z.enum(['0', '1']).optional(),
  epoch: z.int().min(0),
  /** Workers lost in a row while they had it: without a call that finished, or a clean release, in between. */
  crashes: z.int().min(0),
  /** How much speaks for it as the one that takes its workers down. Only a redrive sets it back. Absent: nothing. */
  blame: z.int().min(0).optional(),
  /** Workers lost in its calls for which another run was blamed. Absent: none. */
  excuses: z.int().min(0).optional(),
  /** What it does on the worker that has it. Absent: nothing that could be blamed on it alone. */
  activity: activity.optional(),
  /** How often its wait was ended, and the epoch at which that happened last. */
  resumes: z.int().min(0).optional(),
  resumedEpoch: z.int().min(0).optional(),
  /** How often it was redriven, and the epoch at which that happened last. */
  redrives: z.int().min(0).optional(),
  redrivenEpoch: z.int().min(0).optional(),
  cancel: z.string().optional(),
  /** Its log says so already: it waits for its children to end, and then ends itself. */
  isCancelling: z.boolean().optional(),
  steps: z.int().min(0),
  toolCalls: z.int().min(0).optional(),
  toolErrors: z.int().min(0).optional(),
  usage: runUsage.optional(),
  costMicrocents: microcents,
  childCostMicrocents: microcents.optional(),
  /** Milliseconds that it has been on a worker, over all segments, as of its last commit. A redrive begins again at 0. */
  workedMs: z.int().min(0).optional(),
  attempts: z.array(attempt),
  pending: z.array(pendingItem),
  result: runResult.optional(),
  error: errorInfo.optional(),
  /** Of a child that has ended: what it had read when it wrote its answer. Absent: an older worker ended it, or none. */
  flow: flowLabel.optional(),
  /** Of a run that failed or was cancelled. Absent in lists, and where it has brought nothing. */
  unfinished: unfinishedWork.optional(),
  /** Ids of the messages that the user wrote while the run worked and that its journal has. It outlives the journal. Absent: nothing. */
  inboxRead: z.array(z.string()).optional(),
  /** Of a child that has ended, for the guards of its parents. */
  leaks: leakReport.optional(),
});
export type RunRecord = z.infer<typeof runRecord>;

/** Characters of an input that lists show. */
export const maxPreviewChars = 160;

/** The public view of a run: the record without what only the machinery needs. */
export const runView = z.object({
  runId,
  /** What was asked for. Absent in lists. */
  request: runRequest.optional(),
  /** How its input begins, on one line. Absent where it has no text, and for what an earlier version made. */
  inputPreview: z.string().max(maxPreviewChars).optional(),
  executionId: publicId.optional(),
  agent: z.string(),
  thread: z.string().optional(),
  batch: z.string().optional(),
  /** The parent, and how many parents there are up to the first run. */
  parentRunId: z.string().optional(),
  depth: z.int().optional(),
  status: runStatus,
  cancelling: z.boolean(),
  result: runResult.optional(),
  error: errorInfo.optional(),
  /** What it has brought although it has no answer. Absent in lists. */
  unfinished: unfinishedWork.optional(),
  usage: runUsage.optional(),
  costMicrocents: microcents,
  /** The part of it that runs cost which worked for this one. Absent: none did. */
  childCostMicrocents: microcents.optional(),
  /** Of a task: what it has cost so far, as one row. */
  ledger: ledgerRow.optional(),
  steps: z.int(),
  attempts: z.array(attempt),
  pending: z.array(pendingView),
  /** The children that run now, and what they wait for. Absent in lists, and where there is none. */
  children: z
    .array(z.object({ runId, agent: z.string(), status: runStatus, pending: z.array(pendingView) }))
    .optional(),
  /** What people decided about calls, oldest first. Absent in lists, and where there is none. */
  decisions: z.array(decisionView).optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  /** That its input holds: never their bytes. Absent in lists, and where there is none. */
  files: inputFiles.optional(),
  queue: z.string(),
  createdAt: z.string(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  /** When it fails, if it has not ended before. Absent: it has no deadline. */
  deadlineAt: z.string().optional(),
  durationMs: z.int().optional(),
  lastSequence: z.int(),
  worker: z.string().optional(),
  recoveries: z.int(),
});
export type RunView = z.infer<typeof runView>;

/** What a caller who waited gets: how the run ended, and the parts that are read most at the top level. */
export const runOutcomeView = z.object({
  runId,
  status: runStatus,
  text: z.string(),
  result: runResult.optional(),
  error: errorInfo.optional(),
  unfinished: unfinishedWork.optional(),
  usage: runUsage.optional(),
  costMicrocents: microcents,
  steps: z.int(),
  durationMs: z.int().optional(),
});
export type RunOutcomeView = z.infer<typeof runOutcomeView>;

export function viewOf(
  record: RunRecord,
  decisions: readonly DecisionRecord[] = [],
  children: readonly RunRecord[] = [],
): RunView {
  const { request } = record;
  const { executionId, agent, thread, batch, metadata: labels } = request;
  const deadline = deadlineOf(record);
  return {
    runId: record.runId,
    inputPreview: previewOf(request.input) || undefined,
    executionId,
    agent,
    thread,
    batch,
    ...(record.parent && { parentRunId: record.parent.runId, depth: record.parent.depth }),
    status: record.status,
    cancelling: Boolean(record.cancel) && !isTerminalStatus(record.status),
    result: record.result,
    error: record.error,
    unfinished: record.unfinished,
    usage: record.usage,
    costMicrocents: record.costMicrocents,
    childCostMicrocents: record.childCostMicrocents,
    ledger: workOf(request).kind === 'task' ? taskLedgerOf(record) : undefined,
    steps: record.steps,
    attempts: record.attempts,
    pending: record.pending.map(pendingViewOf),
    ...(children.length > 0 && {
      children: children.map(({ runId: id, request: asked, status, pending }) => ({
        runId: id,
        agent: asked.agent,
        status,
        pending: pending.map(pendingViewOf),
      })),
    }),
    ...(decisions.length > 0 && { decisions: decisionViews(decisions) }),
    metadata: labels,
    files: filesOfRun(record),
    queue: record.queue,
    createdAt: record.createdAt,
    startedAt: record.startedAt,
    endedAt: record.endedAt,
    deadlineAt: deadline === undefined ? undefined : new Date(deadline).toISOString(),
    durationMs: durationOf(record),
    lastSequence: record.lastSequence,
    worker: record.worker,
    recoveries: Math.max(0, record.epoch - 1 - (record.resumes ?? 0) - (record.redrives ?? 0)),
  };
}

/** How an input begins, on one line. */
export function previewOf(input: string): string {
  const beginning = clip(input, 4 * maxPreviewChars);
  return clip(beginning.replaceAll(/\s+/g, ' ').trim(), maxPreviewChars);
}

/** The files of a run's input, as far as they are known by now. */
export function filesOfRun({ files, request }: Pick<RunRecord, 'files' | 'request'>): InputFile[] | undefined {
  return files ?? request.files;
}

/** From its first start to its end. */
export function durationOf({ startedAt, endedAt }: Pick<RunRecord, 'startedAt' | 'endedAt'>): number | undefined {
  return startedAt && endedAt ? Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) : undefined;
}

export function outcomeViewOf(record: RunRecord): RunOutcomeView {
  const { runId, status, result, error, unfinished, usage, costMicrocents, steps } = record;
  const text = result?.text ?? '';
  return {
    runId,
    status,
    text,
    result,
    error,
    unfinished,
    usage,
    costMicrocents,
    steps,
    durationMs: durationOf(record),
  };
}

/**
 * A record, or the part of one that changed, as flat hash fields. Fields that do not exist yet are absent; JSON is used only inside a field.
 * The machinery's own fields (owner, op, unclean, previousWorker, claimSegment, claimTry, bodyHash, nonce, listedRequest, listedParent) live
 * beside these and are not part of the record.
 */
export function recordToHash(record: Readonly<Partial<RunRecord>>): Record<string, string> {
  const hash: Record<string, string> = {};
  for (const [field, value] of Object.entries(record)) {
    if (value !== undefined) hash[field] = typeof value === 'string' ? value : jsonText(value);
  }
  return hash;
}

/** Is a field of this schema a text, and so kept as it is? */
function isText(schema: z.core.$ZodType): boolean {
  if (schema instanceof z.ZodOptional) return isText(schema.unwrap());
  return schema instanceof z.ZodString || schema instanceof z.ZodEnum;
}

/** Reads a record back. Throws `run_state_malformed` or `run_state_version_unsupported`. */
export function recordFromHash(hash: Record<string, string>): RunRecord {
  const name = `the record of run ${hash['runId'] ?? 'without an id'}`;
  if (hash['v'] !== undefined && hash['v'] !== String(runRecordVersion)) {
    throw new RunError('run_state_version_unsupported', `${name} has version ${hash['v']}`);
  }
  const fields: Record<string, unknown> = {};
  try {
    for (const [field, schema] of Object.entries(runRecord.shape)) {
      const text = hash[field];
      if (text !== undefined) fields[field] = isText(schema) ? text : storedJson(text);
    }
    return runRecord.parse(fields);
  } catch (cause) {
    throw new RunError('run_state_malformed', `${name} cannot be read`, { cause });
  }
}
