import type { BatchView } from '../../../../src/shared/contract/batch.ts';

/** A batch as a server shows it. */
export function batchView(about: Partial<BatchView> = {}): BatchView {
  return {
    id: 'batch_01KB0000000000000000000000',
    object: 'batch',
    endpoint: '/v1/runs',
    status: 'in_progress',
    input_file_id: 'file-01KB0000000000000000000000',
    completion_window: '24h',
    created_at: Math.floor(Date.now() / 1_000),
    request_counts: { total: 2, completed: 0, failed: 0 },
    name: 'in',
    format: 'jsonl',
    cost: { usd: 0, microcents: 0 },
    open: { total: 2, waitingForMoney: 0, waitingForPeople: 0 },
    ...about,
  };
}
