import { onTestFinished } from 'vitest';
import type { AdvanceOptions, BatchNews } from '../../../../src/producer/client/batches/batches.ts';
import type { BatchRequestInput, BatchStatus, BatchView } from '../../../../src/shared/contract/batch.ts';
import { batchIs, fileLines, submitBatch } from '../../../support/batches.ts';
import { clientWorld, type ClientWorld } from '../../cli/options/client.ts';

export interface BatchWorld extends ClientWorld {
  /** What happened to batches on the processes that {@link advance} has begun. */
  readonly news: BatchNews[];
  /** Begins to advance batches, as a producer does. Ends with the test. */
  advance(options?: AdvanceOptions): Promise<AsyncDisposable>;
  /** Uploads lines for the agent `support`, and makes a batch of them. */
  submit(
    lines: readonly unknown[] | string,
    more?: Partial<BatchRequestInput> & { filename?: string },
  ): Promise<BatchView>;
  /** Resolves once a batch has one of these statuses. */
  is(id: string, ...statuses: BatchStatus[]): Promise<BatchView>;
  /** The lines of a file, parsed. */
  read(fileId: string | undefined): Promise<readonly Record<string, unknown>[]>;
}

/** Batches in a world of their own. Short leases: a lost process is noticed soon. */
export async function batchWorld(): Promise<BatchWorld> {
  const world = await clientWorld();
  const { mill } = world;
  const news: BatchNews[] = [];
  return {
    ...world,
    news,
    async advance(options = {}) {
      const leases = { lockDurationMs: 1_500, stalledIntervalMs: 300 };
      const advancing = await mill.batches.advance({ ...leases, onNews: (found) => void news.push(found), ...options });
      onTestFinished(() => advancing[Symbol.asyncDispose]());
      return advancing;
    },
    submit: (lines, more) => submitBatch(mill, lines, { agent: 'support', ...more }),
    is: (id, ...statuses) => batchIs(mill, id, statuses),
    read: (fileId) => fileLines(mill, fileId),
  };
}
