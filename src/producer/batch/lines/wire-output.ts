import { assertNever, errorTable } from '../../../shared/base/errors.ts';
import { jsonText } from '../../../shared/base/json.ts';
import { wireErrorOf } from '../../openai/wire-error.ts';
import type { LineHead, LineOutcome } from './line.ts';
import type { WireEndpoint } from './wire-line.ts';

/**
 * A line of an output or error file as OpenAI writes it: the answer that the endpoint would have given with its status, or of a line
 * that never became a run, or was stopped with its batch, an error in place of an answer.
 */
export function wireOutputLine(
  head: LineHead,
  outcome: LineOutcome,
  _endpoint: WireEndpoint,
  _original: string,
): string {
  const answer = { id: `batch_req_${head.line}`, custom_id: head.id ?? null };
  switch (outcome.kind) {
    case 'refused': {
      const { code, message } = outcome.error;
      return lineOf({ ...answer, response: null, error: { code: outcome.error.reason ?? code, message } });
    }
    case 'ended': {
      const { runId, error, text } = outcome.outcome;
      const status_code = error ? errorTable[error.code].http : 200;
      const body = error ? wireErrorOf(error, status_code) : { output_text: text };
      return lineOf({ ...answer, response: { status_code, request_id: runId, body }, error: null });
    }
    default:
      return assertNever(outcome);
  }
}

function lineOf(value: object): string {
  return `${jsonText(value)}\n`;
}
