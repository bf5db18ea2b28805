import type { ErrorInfo } from '../../shared/base/errors.ts';
import type { BudgetSettings } from '../client/budgets.ts';
import type { Millrace } from '../client/millrace.ts';
import type { BatchDefaults } from './batch-file.ts';

/** What a batch needs of the client. */
export type BatchClient = Pick<Millrace, 'agents' | 'enqueueMany' | 'result' | 'get' | 'firehose' | 'budgets'>;

export interface BatchOptions {
  /** The JSONL file to read. */
  readonly file: string;
  /** The JSONL file that results are appended to; made when missing. */
  readonly out: string;
  readonly defaults: BatchDefaults;
  /** What all runs of the batch may cost together. Set before the first line, again each time. Absent: left as it is. */
  readonly budget?: BudgetSettings;
  /** Runs in flight at most. Bounds memory, and what one batch may put into the queue. */
  readonly window: number;
  /** New failures after which no further line is begun; absent: no limit. */
  readonly maxFailures?: number;
}

/** How far a batch is. `earlier` lines were in the output file already; they are part of `finished` and `failed`. */
export interface BatchProgress {
  readonly total: number;
  readonly earlier: number;
  readonly finished: number;
  readonly failed: number;
  /** Queued or running. */
  readonly running: number;
  /** Suspended, and those of them that wait for money. */
  readonly waiting: number;
  readonly waitingForMoney: number;
  readonly costMicrocents: number;
}

/** Called with what happens, to show it. Must not throw. */
export interface BatchWatcher {
  progress(progress: BatchProgress): void;
  /** A line that never becomes a run. */
  refused(line: number, error: ErrorInfo): void;
  /** Every run that was begun waits for money of these accounts (`scope:id`). It goes on once there is more. */
  outOfMoney(accounts: readonly string[]): void;
  /** The queue is full or Redis is away; the next try comes after `delayMs`. */
  waiting(reason: ErrorInfo, delayMs: number): void;
}

/** Why a batch ended, and how far it came. Only `finished` means that every line has its result. */
export interface BatchSummary extends BatchProgress {
  /** What the runs of the batch name as their `batch`. */
  readonly batch: string;
  readonly end: 'finished' | 'interrupted' | 'too_many_failures';
}
