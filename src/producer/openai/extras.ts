import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import { publicId } from '../../shared/base/ids.ts';
import { invalid } from '../../shared/base/problems.ts';
import { maxDeadlineMs } from '../../shared/contract/agent/agent.ts';
import { budgetOnExceed } from '../../shared/contract/money.ts';
import { runQueue } from '../../shared/contract/queues.ts';
import type { RunRequestInput } from '../../shared/contract/run.ts';
import { onBusy } from '../../shared/contract/thread/thread.ts';

function whole(min: number, max: number) {
  const wrong = `must be a whole number from ${min} to ${max}, as text`;
  return z
    .string()
    .regex(/^\d{1,15}$/, wrong)
    .transform(Number)
    .refine((value) => value >= min && value <= max, wrong);
}

/** The keys of `metadata` that say something about the run. They stay in its metadata; all other keys are only that. */
export const extras = z.object({
  thread: publicId.optional().describe('The thread of the run.'),
  on_busy: onBusy.optional().describe('What it does while another run has the lock of the thread.'),
  priority: whole(0, 2_097_151).optional().describe('Order within the queue.'),
  queue: runQueue.optional().describe('The queue of the run.'),
  batch: publicId.optional().describe('The batch whose budget it shares.'),
  max_cost_usd: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,8})?$/, 'must be dollars, as text such as 0.05')
    .transform(Number)
    .optional()
    .describe('What it may spend.'),
  on_exceed: budgetOnExceed.optional().describe('What happens before a call that could pass that. Default `fail`.'),
  deadline_ms: whole(1, maxDeadlineMs)
    .optional()
    .describe('Milliseconds from its acceptance to its end at the latest.'),
  queue_ttl_ms: whole(1, maxDeadlineMs).optional().describe('How long it may wait for a worker.'),
  max_steps: whole(1, 10_000).optional().describe('Rounds of tool calls.'),
});

/** What `metadata` says about the run. Throws `validation`. */
export function extrasOf(metadata: Readonly<Record<string, string>> = {}): Partial<RunRequestInput> {
  const parsed = extras.safeParse(metadata);
  if (!parsed.success) throw inMetadata(invalid('validation', 'the request is not valid', parsed.error));
  const {
    thread,
    on_busy: busy,
    priority,
    queue,
    batch,
    deadline_ms: deadlineMs,
    queue_ttl_ms: queueTtlMs,
  } = parsed.data;
  const { max_cost_usd: maxCostUsd, on_exceed: onExceed, max_steps: maxSteps } = parsed.data;
  if (onExceed !== undefined && maxCostUsd === undefined)
    throw new RunError('validation', 'the request is not valid: metadata.on_exceed: needs max_cost_usd', {
      details: [{ path: 'metadata.on_exceed', message: 'needs max_cost_usd' }],
    });
  return {
    thread,
    onBusy: busy,
    priority,
    queue,
    batch,
    deadlineMs,
    queueTtlMs,
    budget: maxCostUsd === undefined ? undefined : { maxCostUsd, onExceed },
    limits: maxSteps === undefined ? undefined : { maxSteps },
  };
}

const problems = z.array(z.object({ path: z.string(), message: z.string() }));

function inMetadata({ code, details }: RunError): RunError {
  const found = (problems.safeParse(details).data ?? []).map((it) => ({ ...it, path: `metadata.${it.path}` }));
  const list = found.map(({ path, message }) => `${path}: ${message}`);
  return new RunError(code, `the request is not valid: ${list.join('; ')}`, { details: found });
}
