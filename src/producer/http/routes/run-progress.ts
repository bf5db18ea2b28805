import { z } from 'zod';
import { maxNotesRead } from '../../../shared/contract/progress.ts';
import { progressEntry } from '../../client/progress.ts';
import type { App } from '../app.ts';
import { errorBody, runIdParam } from '../openapi.ts';

const schema = {
  summary: 'Read the progress notes of a run',
  description:
    'What agents wrote down with `progress_write`, by number and then by role. Notes outlive their run: see `PROGRESS_RETENTION_DAYS`. `text` is missing where the producer cannot read it.',
  params: runIdParam,
  querystring: z.object({
    role: z.string().optional().describe('Only notes of this role.'),
    sinceSeq: z.coerce.number().optional().describe('Only notes with a higher number.'),
    maxArtifacts: z.coerce.number().optional().describe(`1 to ${maxNotesRead}, which is the default.`),
  }),
  response: { 200: z.object({ notes: z.array(progressEntry) }), '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/runs/:id/progress`. */
export function runProgressRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/runs/:id/progress',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, params, query: { role, sinceSeq, maxArtifacts } }) => ({
      notes: [
        ...(await mill.progress(params.id, {
          ...(role !== undefined && { role }),
          ...(sinceSeq !== undefined && { sinceSeq }),
          ...(maxArtifacts !== undefined && { maxArtifacts }),
        })),
      ],
    }),
  });
}
