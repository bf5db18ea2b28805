import { z } from 'zod';
import { RunError } from '../base/errors.ts';
import { jsonText, storedJson } from '../base/json.ts';
import { batchId, batchQuote, batchRequest, batchStatus, batchView, type BatchView } from './batch.ts';
import { isEndedBatch } from './plain/batch-ends.ts';
import { fileId } from './files.ts';
import { microcentsPerUsd } from './money.ts';

const count = z.coerce.number().int().min(0);
/** Milliseconds since the epoch. */
const time = z.coerce.number().int().min(0);
const json = <T extends z.ZodType>(schema: T) => z.string().transform(storedJson).pipe(schema);

/** What the last minute brought: `STEP:LINES` for each of the last steps, in fields that are used in turn. */
const rate = z.string().optional();
const rateFields = { rate0: rate, rate1: rate, rate2: rate, rate3: rate, rate4: rate, rate5: rate, rate6: rate };

/** A problem of a whole batch, as OpenAI's API has them. */
export const batchProblem = z.object({
  code: z.string(),
  message: z.string(),
  line: z.int().optional(),
  param: z.string().optional(),
});
export type BatchProblem = Readonly<z.infer<typeof batchProblem>>;

/** A batch as it is kept in Redis, a field each. Sums grow in the scripts that take outcomes of lines. */
export const batchRecord = z.object({
  id: batchId,
  tenant: z.string(),
  /** What its lines may ask for: what its caller may. */
  rights: z.enum(['operator', 'caller']),
  requestId: z.string().optional(),
  request: json(batchRequest),
  /** Of the input file. */
  filename: z.string(),
  name: z.string(),
  status: batchStatus,
  /** Of one that is paused, or waits with its quote. */
  reason: z.enum(['', 'asked', 'max_failures', 'quote', 'over_max_cost']),
  /** The status before it was paused. */
  before: batchStatus.optional(),
  /** How it ends once its files are made. */
  ending: z.enum(['completed', 'expired', 'cancelled', 'failed']).optional(),
  /** How often failed lines were redriven. */
  round: count,
  createdAt: time,
  expiresAt: time,
  /** Since when the present pace is measured: its beginning, or when it was resumed. */
  since: time,
  inProgressAt: time.optional(),
  finalizingAt: time.optional(),
  cancellingAt: time.optional(),
  endedAt: time.optional(),
  maxOpen: count,
  /** Empty: none. */
  maxFailures: z.string(),
  /** Failures since it began or was resumed. */
  failures: count,
  /** Lines, once they were counted; and their bytes. */
  total: count,
  bytes: count,
  completed: count,
  failed: count,
  costMicrocents: count,
  inputTokens: count,
  outputTokens: count,
  waitingForMoney: count,
  waitingForPeople: count,
  /** Bytes of lines of output that are in no part yet. */
  outputBytes: count,
  errorBytes: count,
  /** The number of the last job that was made for it, and the nonce of the stay that has it; empty: none. */
  jobs: z.string(),
  stay: z.string(),
  /** The fields of structured answers that a CSV has as columns. */
  answerFields: json(z.array(z.string())),
  quote: json(batchQuote).optional(),
  errors: json(z.array(batchProblem)).optional(),
  /** The files that its lines are written to, and those that are made. */
  outputId: fileId,
  errorId: fileId,
  outputFileId: z.string().optional(),
  errorFileId: z.string().optional(),
  /** Bytes of the output file up to the first line without an answer. */
  answerBytes: count,
  /** Of one that was redriven after its end: the file that the answers of before are in, and the one of the failures. */
  baseFileId: z.string().optional(),
  oldErrorFileId: z.string().optional(),
  ...rateFields,
});
export type BatchRecord = Readonly<z.infer<typeof batchRecord>>;

/** Fields as a hash has them. Those that are undefined are left out. */
export function batchToHash(fields: Partial<BatchRecord>): string[] {
  return Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [name, typeof value === 'string' ? value : jsonText(value)],
  );
}

/** Throws `run_state_malformed` for what no version of ours has written. */
export function batchFromHash(hash: Readonly<Record<string, string>>): BatchRecord {
  const parsed = batchRecord.safeParse(hash);
  if (parsed.success) return parsed.data;
  throw new RunError('run_state_malformed', `batch ${hash['id']} cannot be read`, { cause: parsed.error });
}

/** A line that is open. Numbers are bytes of the input file. */
export const openLine = z.object({
  line: z.int(),
  id: z.string().optional(),
  offset: z.int(),
  length: z.int(),
  executionId: z.string(),
  /** The round in which its run was begun or redriven. Absent: its failed run of an earlier round may be all there is. */
  round: z.int().optional(),
});
export type OpenLine = Readonly<z.infer<typeof openLine>>;

/** What a line of the sample brought. */
export const sampledLine = z.object({
  costMicrocents: z.int(),
  /** Requests to models. */
  requests: z.int(),
  tokens: z.int(),
  /** Of the line in the file. */
  bytes: z.int(),
  workedMs: z.number(),
});
export type SampledLine = Readonly<z.infer<typeof sampledLine>>;

/** Outcomes of the last minute are counted in steps of so much. */
export const rateStepMs = 10_000;
const rateMs = 60_000;

/** Lines a second that have ended in the last minute, or since the batch goes on. */
export function batchRate(record: BatchRecord, nowMs: number): number {
  const first = Math.floor((nowMs - rateMs) / rateStepMs) + 1;
  const { rate0, rate1, rate2, rate3, rate4, rate5, rate6 } = record;
  const fields = [rate0, rate1, rate2, rate3, rate4, rate5, rate6];
  const steps = fields.map((field = '') => field.split(':').map(Number));
  const ended = steps.reduce((sum, [step = 0, lines = 0]) => sum + (step >= first ? lines : 0), 0);
  const sinceMs = Math.max(record.since, first * rateStepMs);
  return ended / Math.max(1, (nowMs - sinceMs) / 1_000);
}

/** Are the input and the output of this batch CSV? */
export function isCsv({ request, filename }: Pick<BatchRecord, 'request' | 'filename'>): boolean {
  return request.endpoint === '/v1/runs' && filename.toLowerCase().endsWith('.csv');
}

/** As callers see it. `open`: lines that are queued or run. */
export function batchViewOf(record: BatchRecord, open: number, nowMs: number): BatchView {
  const { request, status, reason, total, completed, failed, inputTokens, outputTokens, costMicrocents } = record;
  const seconds = (ms: number | undefined) => (ms === undefined ? undefined : Math.floor(ms / 1_000));
  const endedAs = (wanted: typeof status) => (status === wanted ? seconds(record.endedAt) : undefined);
  const rate = status === 'in_progress' ? batchRate(record, nowMs) : 0;
  const leftS = rate > 0 ? Math.ceil((total - completed - failed) / rate) : undefined;
  return batchView.parse({
    id: record.id,
    object: 'batch',
    endpoint: request.endpoint,
    status,
    input_file_id: request.input_file_id,
    completion_window: request.completion_window,
    output_file_id: record.outputFileId,
    error_file_id: record.errorFileId,
    errors: record.errors && { object: 'list', data: record.errors },
    created_at: seconds(record.createdAt),
    in_progress_at: seconds(record.inProgressAt),
    expires_at: seconds(record.expiresAt),
    finalizing_at: seconds(record.finalizingAt),
    completed_at: endedAs('completed'),
    failed_at: endedAs('failed'),
    expired_at: endedAs('expired'),
    cancelling_at: seconds(record.cancellingAt),
    cancelled_at: endedAs('cancelled'),
    request_counts: { total, completed, failed },
    usage: { input_tokens: inputTokens, output_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
    metadata: request.metadata,
    name: record.name,
    format: isCsv(record) ? 'csv' : 'jsonl',
    ...(request.endpoint === '/v1/runs' && { agent: request.agent, inputTemplate: request.inputTemplate }),
    queue: request.queue,
    cost: { usd: costMicrocents / microcentsPerUsd, microcents: costMicrocents },
    open: {
      total: isEndedBatch(status) ? 0 : open,
      waitingForMoney: record.waitingForMoney,
      waitingForPeople: record.waitingForPeople,
    },
    quote: record.quote,
    eta: leftS === undefined ? undefined : { at: Math.ceil(nowMs / 1_000) + leftS, seconds: leftS },
    reason: reason === '' ? undefined : reason,
  });
}
