import { assertNever } from '../../../shared/base/errors.ts';
import { isRecord, jsonOr, jsonText } from '../../../shared/base/json.ts';
import { answerOf, failureOf, type AnsweredRun } from '../../openai/answer.ts';
import type { WireEndpoint } from '../../openai/run-request.ts';
import type { LineHead, LineOutcome } from './line.ts';

/**
 * A line of an output or error file as OpenAI writes it: the answer that the endpoint would have given with its status, or of a line
 * that never became a run, or was stopped with its batch, an error in place of an answer.
 */
export function wireOutputLine(head: LineHead, outcome: LineOutcome, endpoint: WireEndpoint, original: string): string {
  const answer = { id: `batch_req_${head.line}`, custom_id: head.id ?? null };
  switch (outcome.kind) {
    case 'refused': {
      const { code, message, reason } = outcome.error;
      return lineOf({ ...answer, response: null, error: { code: reason ?? code, message } });
    }
    case 'ended': {
      const run = answeredRun(outcome);
      const failure = failureOf(run);
      const status_code = failure?.status ?? 200;
      const body = failure?.body ?? answerOf(endpoint, run, bodyOf(original));
      return lineOf({ ...answer, response: { status_code, request_id: run.runId, body }, error: null });
    }
    default:
      return assertNever(outcome);
  }
}

/** An outcome says how long a run took and not when it began: its result is being written now. */
function answeredRun({ outcome }: Extract<LineOutcome, { kind: 'ended' }>): AnsweredRun {
  const { runId, status, result, error, usage, costMicrocents, steps, durationMs = 0 } = outcome;
  const now = Date.now();
  const endedAt = new Date(now).toISOString();
  const createdAt = new Date(now - durationMs).toISOString();
  return { runId, status, result, error, usage, costMicrocents, steps, createdAt, endedAt };
}

function bodyOf(original: string): unknown {
  const line = jsonOr(original);
  return isRecord(line) ? line['body'] : undefined;
}

function lineOf(value: object): string {
  return `${jsonText(value)}\n`;
}
