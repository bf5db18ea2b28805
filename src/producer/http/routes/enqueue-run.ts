import { RunError } from '../../../shared/base/errors.ts';
import { runRequest, type RunRequestInput } from '../../../shared/contract/run.ts';
import { z } from 'zod';
import type { App, Services } from '../app.ts';
import { acceptedRun, errorBody } from '../openapi.ts';

const schema = {
  summary: 'Start a run',
  description:
    'The same execution id with the same body answers with the same run for at least 24 hours, also after it has ended; with another body it answers 409 `idempotency_conflict`. After a 503 it is unknown whether the run exists: repeat with the same execution id.',
  headers: z.object({ 'idempotency-key': z.string().optional().describe('The same as `executionId` in the body.') }),
  body: runRequest,
  response: { 202: acceptedRun, '4xx': errorBody, '5xx': errorBody },
};

/** `POST /v1/runs`: one run, acknowledged once its record and its job are in Redis. */
export function enqueueRunRoute(app: App, { metrics }: Services): void {
  app.route({
    method: 'POST',
    url: '/v1/runs',
    schema,
    config: { access: 'write' },
    handler: async ({ mill, body, headers }, reply) => {
      try {
        const asked = withExecutionId(body, headers['idempotency-key']);
        const { runId, status = 'queued', attached, warnings } = await mill.enqueue(asked as RunRequestInput);
        metrics.runAsked(attached ? 'attached' : 'accepted');
        return await reply
          .code(202)
          .header('location', `/v1/runs/${runId}`)
          .send({ runId, status, attached, warnings: warnings.length > 0 ? warnings : undefined });
      } catch (error) {
        metrics.runAsked('refused');
        throw error;
      }
    },
  });
}

function withExecutionId(body: unknown, key: string | undefined): unknown {
  if (body === undefined || body === null) throw new RunError('invalid_json', 'the body is empty');
  if (key === undefined || typeof body !== 'object') return body;
  if ('executionId' in body && body.executionId !== key) {
    throw new RunError('validation', 'the header Idempotency-Key and executionId differ: give one of them');
  }
  return { ...body, executionId: key };
}
