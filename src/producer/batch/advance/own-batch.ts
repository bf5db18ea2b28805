import type { Clock } from '../../../shared/base/clock.ts';
import type { ErrorInfo, RunError } from '../../../shared/base/errors.ts';
import type { BatchStatus } from '../../../shared/contract/batch.ts';
import type { BatchRecord, OpenLine } from '../../../shared/contract/batch-record.ts';
import type { RunOutcomeView } from '../../../shared/contract/run.ts';
import type { BatchChange, BatchStore, Stay } from '../../../shared/state/batch/batches.ts';
import type { FileStore } from '../../../shared/state/files/files.ts';
import type { LineEnd } from '../../client/batches/batches.ts';
import type { RedriveRequest } from '../../client/redrive.ts';
import type { BatchLine, ErasedLines, LineHead, LineSource } from '../lines/line.ts';
import type { Outstanding, RunsToFollow } from '../outstanding.ts';
import type { Submitting } from '../submit.ts';

/** What a batch asks for on behalf of its tenant. */
export interface BatchClient extends RunsToFollow, Submitting {
  cancel(runId: string): Promise<unknown>;
  redrive(request: RedriveRequest): Promise<unknown>;
}

/** Runs that workers of a queue have room for at once, and jobs that wait there. */
export interface QueueRoom {
  readonly slots: number | undefined;
  readonly waiting: number;
  /** What the providers of these workers take together. Undefined: of one of them it is not known. */
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
}

/** What advancing batches needs of its process. */
export interface AdvancePorts {
  readonly store: BatchStore;
  readonly files: FileStore;
  readonly erasedLines: ErasedLines;
  readonly clock: Clock;
  /** The client of the tenant of a batch, with the rights of its caller. */
  clientFor(record: BatchRecord): BatchClient;
  roomOf(queue: string): Promise<QueueRoom>;
  /** Do other batches wait for a process? */
  othersWait(): Promise<boolean>;
  /** How long a batch keeps this process from others that wait, in milliseconds. */
  readonly turnMs: number;
  onStatus(record: BatchRecord, before: BatchStatus): void;
  onLine(end: LineEnd): void;
}

/** A line that is open, and whose run is followed. */
export interface FollowedLine {
  readonly place: number;
  readonly runId: string;
  readonly open: OpenLine;
}

/** A line that gets no answer, and why. */
export interface RefusedLine {
  readonly place: number;
  readonly open: OpenLine;
  readonly error: ErrorInfo;
}

/** The input file of a batch, as lines. Throws `not_found` when it is gone, and `validation` for a file that cannot be read as lines. */
export interface InputLines {
  source(): Promise<LineSource>;
  /** The same of a file that may be gone. */
  sourceOrDraft(): Promise<LineSource>;
  /** All lines with their place, from 0. */
  all(): AsyncIterable<readonly [place: number, line: BatchLine]>;
  /** What a line says. */
  textOf(line: Pick<LineHead, 'offset' | 'length'>): Promise<string>;
}

/** A batch that this process has for now. It is known as it was a second ago; scripts decide about everything that changes it. */
export interface OwnBatch {
  readonly stay: Stay;
  readonly ports: AdvancePorts;
  readonly client: BatchClient;
  readonly outstanding: Outstanding<FollowedLine>;
  readonly input: InputLines;
  readonly taking: {
    /** Takes the outcome of a run, and writes its line of output. */
    ended(place: number, open: OpenLine, outcome: RunOutcomeView): Promise<void>;
    refused(lines: readonly RefusedLine[]): Promise<void>;
    /** Writes what is left of the lines of output into parts of files. */
    flush(): Promise<void>;
  };
  readonly record: BatchRecord;
  readonly stop: AbortSignal;
  /** Looks at the batch now. Throws when another stay has it. */
  look(): Promise<BatchRecord>;
  /** Looks where it is unknown whether the batch is still ours. */
  sure(): Promise<void>;
  /** Another stay has the batch: stops this one, and answers the error to throw. */
  lose(): RunError;
  /** Moves on from the status that is known. False: the batch was not as it was known. */
  move(to: BatchStatus, change?: BatchChange, wholly?: boolean): Promise<boolean>;
  /** No line can be read any more: has what is open stopped, and the batch end with what there is. */
  inputGone(error: RunError): Promise<undefined>;
  /** Resolves at the next look, or when a line has ended. Throws when the stay stops. */
  news(): Promise<void>;
}

/** Does it stop what is open, and write its files? */
export function isEnding({ status }: Pick<BatchRecord, 'status'>): boolean {
  return status === 'finalizing' || status === 'cancelling';
}
