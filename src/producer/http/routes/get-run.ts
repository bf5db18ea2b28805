import { runView } from '../../../shared/contract/run.ts';
import type { App } from '../app.ts';
import { errorBody, runIdParam } from '../openapi.ts';

const schema = {
  summary: 'Read a run',
  description:
    'Status, result, usage, cost in microcents (1e-8 USD), steps, attempts, and what a suspended run waits for.',
  params: runIdParam,
  response: { 200: runView, '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/runs/:id`. */
export function getRunRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/runs/:id',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, params }) => await mill.get(params.id),
  });
}
