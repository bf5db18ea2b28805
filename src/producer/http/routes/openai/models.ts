import { z } from 'zod';
import { RunError } from '../../../../shared/base/errors.ts';
import type { AgentView } from '../../../../shared/contract/agent/agent.ts';
import { agentNamed } from '../../../openai/run-request.ts';
import type { App, Services } from '../../app.ts';
import { route } from '../../openapi.ts';
import { answerErrorsAsOpenAi, wireErrors } from './error-shape.ts';

const model = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  name: z.string().optional(),
  version: z.string().optional(),
  description: z.string().optional(),
});

const listModelsRoute = route('read', {
  operationId: 'listModels',
  summary: 'List agents as models',
  description: 'The API of OpenAI, for its clients: each agent is a model.',
  response: { 200: z.object({ object: z.literal('list'), data: z.array(model) }), ...wireErrors },
});

const getModelRoute = route('read', {
  operationId: 'getModel',
  summary: 'Read an agent as a model',
  params: z.object({ id: z.string().describe('The agent, as `model` of a request names it.') }),
  response: { 200: model, ...wireErrors },
});

export function modelRoutes(app: App, services: Services): void {
  answerErrorsAsOpenAi(app, services);
  app.get('/v1/models', listModelsRoute, async ({ mill }) => {
    const agents = await mill.agents();
    return { object: 'list' as const, data: agents.map(modelOf) };
  });
  app.get('/v1/models/:id', getModelRoute, async ({ mill, params }) => {
    const { agent, agentVersion } = agentNamed(params.id);
    const found = (await mill.agents()).find(({ id }) => id === agent);
    if (!found || (agentVersion !== undefined && found.version !== agentVersion))
      throw new RunError('not_found', `there is no agent ${params.id}`);
    return modelOf(found);
  });
}

/** Agents have no time of creation. */
function modelOf({ id, name, version, description }: AgentView) {
  return { id, object: 'model' as const, created: 0, owned_by: 'millrace', name, version, description };
}
