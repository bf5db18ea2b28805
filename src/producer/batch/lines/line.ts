import type { ErrorInfo } from '../../../shared/base/errors.ts';
import type { BatchEndpoint } from '../../../shared/contract/batch.ts';
import type { RunOutcomeView, RunRequestInput } from '../../../shared/contract/run.ts';

/** What every run of a batch gets unless its line says otherwise. */
export type LineDefaults = Readonly<
  Partial<Pick<RunRequestInput, 'agent' | 'overrides' | 'deadlineMs' | 'priority' | 'queue'>>
>;

/** What is said of a batch before its file is looked at. */
export interface SourceDraft {
  readonly endpoint: BatchEndpoint;
  /** Of the input file: one that ends in `.csv` has a header and rows, any other one a line of JSON each. */
  readonly filename: string;
  readonly defaults: LineDefaults;
  readonly inputTemplate: string | undefined;
  /**
   * The fields of the structured answer of the agent of all lines, where it has one: columns of the output of a CSV. A field that
   * is not among them, and an answer of another agent, goes into the column `text`.
   */
  readonly answerFields: readonly string[];
}

/** Where the lines of a batch come from, and what they have in common. */
export interface LineSource extends SourceDraft {
  /** The columns of a CSV, in their order. Undefined: the file is JSONL. */
  readonly columns: readonly string[] | undefined;
}

/** What is known of a line while its run works. `offset` and `length` are bytes of the file, without what ends the line. */
export interface LineHead {
  /** In the file, from 1: what an author looks for. The first line of a record of a CSV that has several. */
  readonly line: number;
  /** The author's own name for it: `id` or `custom_id`. */
  readonly id: string | undefined;
  readonly offset: number;
  readonly length: number;
}

/**
 * A line of the file that is not empty. `key` follows from what the line says (of a line of OpenAI's: from its `custom_id`) and from
 * the defaults, not from its place: at most 60 characters of `A-Za-z0-9._:-`, and no two lines of a file have the same. The
 * execution id of its run is made of it.
 */
export type BatchLine = LineHead & { readonly key: string } & (
    | { readonly kind: 'request'; readonly request: RunRequestInput }
    | { readonly kind: 'bad'; readonly error: ErrorInfo }
  );

/** What is still known of a line that an erasure overwrote. */
export interface OverwrittenLine extends Pick<BatchLine, 'key'> {
  /** Of the id that it had, where a later line of the file has it, too. */
  readonly idDigest?: string;
}

/** The lines of a file that erasures overwrote, by their offset. */
export type ErasedLines = (fileId: string) => Promise<ReadonlyMap<number, OverwrittenLine>>;

/** What became of a line. */
export type LineOutcome =
  | { readonly kind: 'ended'; readonly executionId: string; readonly outcome: RunOutcomeView }
  /** It never became a run, or its run was stopped with the batch. Costs are those of a run that was stopped. */
  | {
      readonly kind: 'refused';
      readonly executionId: string;
      readonly runId: string | undefined;
      readonly error: ErrorInfo;
      readonly costMicrocents: number;
    };

/** Did this line give an answer? `blocked` is an answer that a guard withheld. */
export function isAnswered(outcome: LineOutcome): boolean {
  return outcome.kind === 'ended' && (outcome.outcome.status === 'completed' || outcome.outcome.status === 'degraded');
}
