import { z } from 'zod';
import { agentView } from '../../../shared/contract/agent/agent.ts';
import type { App } from '../app.ts';
import { errorBody } from '../openapi.ts';

const schema = {
  summary: 'List agents',
  description: 'The agents that workers and producers have loaded.',
  response: { 200: z.object({ agents: z.array(agentView) }), '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/agents`. */
export function listAgentsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/agents',
    schema,
    config: { access: 'read' },
    handler: async ({ mill }) => ({ agents: [...(await mill.agents())] }),
  });
}
