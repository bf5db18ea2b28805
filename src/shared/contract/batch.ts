import { z } from 'zod';
import { publicId } from '../base/ids.ts';
import { fileId } from './files.ts';
import { budgetSettings } from './money.ts';
import { batchStatuses, type BatchStatus } from './plain/batch-ends.ts';
import { runQueue } from './queues.ts';
import { maxBatchLines, runOverrides } from './run.ts';

/** `batch_` and a ULID. */
export const batchId = z.string().regex(/^batch_[0-9A-HJKMNP-TV-Z]{26}$/, 'is not a batch id');

/** What the lines of a batch are requests of. */
export const batchEndpoint = z.enum(['/v1/runs', '/v1/responses', '/v1/chat/completions']);
export type BatchEndpoint = z.infer<typeof batchEndpoint>;

/**
 * OpenAI's states, and three of our own: `quoting` while a sample runs, `quoted` while the batch waits for its caller to resume or cancel it, and
 * `paused` while no further line is begun.
 */
export const batchStatus = z.enum(batchStatuses);
export type { BatchStatus };

const metadata = z
  .record(z.string().min(1).max(512), z.string().max(512))
  .refine((fields) => Object.keys(fields).length <= 16, 'at most 16 keys');

const hourMs = 3_600_000;
const maxWindowMs = 30 * 24 * hourMs;

/** A completion window in milliseconds. */
export function windowMs(text: string): number {
  return Number.parseInt(text, 10) * (text.endsWith('d') ? 24 : 1) * hourMs;
}

const common = {
  input_file_id: fileId,
  /**
   * From the acceptance of the batch until it expires: `24h`, or another number of hours (`h`) or days (`d`), up to 30 days. Default
   * `24h`. A batch expires no later than its input file does.
   */
  completion_window: z
    .string()
    .regex(/^[1-9]\d{0,2}[hd]$/, 'must be a number of hours or days, for instance 24h')
    .refine((text) => windowMs(text) <= maxWindowMs, 'must be 30 days at most')
    .default('24h'),
  metadata: metadata.optional(),
  /** How long the output files are kept once they are made: 1 hour to 30 days. Default 7 days. */
  output_expires_after: z
    .strictObject({ anchor: z.literal('created_at'), seconds: z.int().min(3_600).max(2_592_000) })
    .optional(),
  /** What all runs of the batch may spend together; set before the first line. */
  budget: budgetSettings.optional(),
  priority: z.int().min(0).max(2_097_151).optional(),
  queue: runQueue.optional(),
  /** The lines that are open at once, at most. Default 200. */
  maxOpen: z.int().min(1).max(10_000).default(200),
  /** Failures, since the batch began or was resumed, after which it is paused: no further line is begun. */
  maxFailures: z.int().min(1).optional(),
  /** Runs a sample first and then waits, or goes on when its cost is likely to stay below `maxCostUsd` and refuses to when it is not. */
  quote: z
    .strictObject({
      /** Lines of the sample, which are lines of the batch like all others. Default 20. */
      lines: z.int().min(1).max(1_000).default(20),
      maxCostUsd: z.number().positive().optional(),
    })
    .optional(),
};

/** A batch of runs, with lines of our own: JSONL or CSV by the file's name. */
export const runsBatchRequest = z.strictObject({
  ...common,
  endpoint: z.literal('/v1/runs'),
  /** Runs carry it as their `batch`: it shares a budget, and the same line in a batch of the same name is the same run. Default: the batch's id. */
  name: publicId.max(80).optional(),
  /** The agent of lines that name none. */
  agent: publicId.optional(),
  /** Makes the input of a line: `{{ field }}` is a field of the line, or a column of the CSV. Default: the field `input`. */
  inputTemplate: z.string().min(1).max(65_536).optional(),
  overrides: runOverrides.optional(),
  /** Each run ends with `deadline_exceeded` so long after its acceptance. */
  deadlineMs: z.int().min(1).optional(),
});

/** A batch of requests of OpenAI's API: `model` of a line's body is the agent. */
export const wireBatchRequest = z.strictObject({
  ...common,
  endpoint: z.enum(['/v1/responses', '/v1/chat/completions']),
});

export const batchRequest = z.discriminatedUnion('endpoint', [runsBatchRequest, wireBatchRequest]);
export type BatchRequest = z.output<typeof batchRequest>;
export type BatchRequestInput = z.input<typeof batchRequest>;

/** A range that holds in nine of ten cases. */
const range = z.object({ low: z.number(), high: z.number() });

/** What a batch is likely to cost and how long it is likely to take, as a whole, from the lines that ran as a sample. */
export const batchQuote = z.object({
  lines: z.int(),
  sampled: z.int(),
  costUsd: range,
  seconds: range,
});
export type BatchQuote = Readonly<z.infer<typeof batchQuote>>;

const time = z.int().optional();

/** A batch as OpenAI's API shows it, with fields of our own. Times are whole seconds since the epoch. */
export const batchView = z.object({
  id: batchId,
  object: z.literal('batch'),
  endpoint: batchEndpoint,
  status: batchStatus,
  input_file_id: z.string(),
  completion_window: z.string(),
  output_file_id: z.string().optional(),
  error_file_id: z.string().optional(),
  errors: z
    .object({
      object: z.literal('list'),
      data: z.array(
        z.object({ code: z.string(), message: z.string(), line: z.int().optional(), param: z.string().optional() }),
      ),
    })
    .optional(),
  created_at: z.int(),
  in_progress_at: time,
  expires_at: time,
  finalizing_at: time,
  completed_at: time,
  failed_at: time,
  expired_at: time,
  cancelling_at: time,
  cancelled_at: time,
  request_counts: z.object({
    total: z.int().max(maxBatchLines),
    completed: z.int(),
    failed: z.int(),
  }),
  usage: z.object({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }).optional(),
  metadata: metadata.optional(),
  name: z.string(),
  /** Of its input and its results. */
  format: z.enum(['jsonl', 'csv']),
  agent: z.string().optional(),
  inputTemplate: z.string().optional(),
  queue: z.string().optional(),
  cost: z.object({ usd: z.number(), microcents: z.int() }),
  /** Lines that are queued or run, and of those the ones that wait for money and for people. */
  open: z.object({ total: z.int(), waitingForMoney: z.int(), waitingForPeople: z.int() }),
  quote: batchQuote.optional(),
  /** Of a batch that makes progress: when it is likely to end. */
  eta: z.object({ at: z.int(), seconds: z.int() }).optional(),
  /** Why it is paused, or waits as `quoted`. */
  reason: z.enum(['asked', 'max_failures', 'quote', 'over_max_cost']).optional(),
});
export type BatchView = Readonly<z.infer<typeof batchView>>;
