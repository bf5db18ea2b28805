import { jsonText } from '../../../shared/base/json.ts';
import { assertNever, errorTable } from '../../../shared/base/errors.ts';
import type { LineHead, LineOutcome, LineSource } from './line.ts';

/** What comes before the first line of an output file, its end of line included. Undefined: nothing does. */
export function outputHeader({ columns }: LineSource): string | undefined {
  return columns && `${[...columns, 'status', 'text', 'error', 'cost_usd', 'run_id'].join(',')}\n`;
}

/** Does {@link outputLine} of this source look at what the line says? */
export function needsOriginal({ endpoint, columns }: LineSource): boolean {
  return endpoint !== '/v1/runs' || columns !== undefined;
}

/**
 * One line of the output, or of the error file, with its end of line: of a batch of OpenAI's lines as there, else one of ours, in JSONL
 * or CSV as the input is. `original` is what the line says in the file, and '' where {@link needsOriginal} is false.
 */
export function outputLine(head: LineHead, outcome: LineOutcome, source: LineSource, original: string): string {
  const { line, id } = head;
  const ours = source.endpoint === '/v1/runs' ? { line, id } : { id: `batch_req_${line}`, custom_id: id };
  void original;
  switch (outcome.kind) {
    case 'ended': {
      const { runId, status, text, error, unfinished, costMicrocents, usage } = outcome.outcome;
      const { executionId } = outcome;
      return `${jsonText({ ...ours, executionId, runId, status, text, error, unfinished, costMicrocents, usage })}\n`;
    }
    case 'refused': {
      const { executionId, runId, error, costMicrocents } = outcome;
      const status = errorTable[error.code].scope === 'admission' ? 'failed' : 'cancelled';
      return `${jsonText({ ...ours, executionId, runId, status, text: '', error, costMicrocents })}\n`;
    }
    default:
      return assertNever(outcome);
  }
}
