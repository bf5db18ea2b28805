/** How a batch can end. */
const ended = ['completed', 'failed', 'expired', 'cancelled'] as const;
export const batchStatuses = [
  'validating',
  'quoting',
  'quoted',
  'in_progress',
  'paused',
  'finalizing',
  'cancelling',
  ...ended,
] as const;
export type BatchStatus = (typeof batchStatuses)[number];
const endedStatuses: ReadonlySet<BatchStatus> = new Set(ended);

/** Will this status of a batch stay, unless its failed lines are redriven? */
export function isEndedBatch(status: BatchStatus): boolean {
  return endedStatuses.has(status);
}
