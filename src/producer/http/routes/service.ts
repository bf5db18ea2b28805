import { z } from 'zod';
import type { App, Services } from '../app.ts';
import { agentDetail } from '../../../shared/contract/agent/agent-detail.ts';
import { agentView } from '../../../shared/contract/agent/agent.ts';
import { errors, route } from '../openapi.ts';
import { readinessAnswer } from '../readiness.ts';

const readinessBody = readinessAnswer
  .partial({ redis: true })
  .extend({ status: z.enum(['ready', 'not_ready', 'draining']) });

const liveSchema = {
  summary: 'Is the process alive?',
  response: { 200: z.object({ status: z.literal('ok') }) },
};
const readySchema = {
  operationId: 'checkReadiness',
  summary: 'Can this producer take work?',
  description: 'Whether Redis takes writes, and the durability level in force: what an acknowledged run survives.',
  response: { 200: readinessBody, 503: readinessBody },
};

const scrapeSchema = { operationId: 'scrapeMetrics', summary: 'Metrics for Prometheus', produces: ['text/plain'] };

const agentsRoute = route('read', {
  operationId: 'listAgents',
  summary: 'List agents',
  description: 'The agents that workers and producers have loaded.',
  response: { 200: z.object({ agents: z.array(agentView) }), ...errors },
});

const agentRoute = route('read', {
  operationId: 'getAgent',
  summary: 'Read an agent',
  description:
    'One agent with all that is data of its definition: instructions, models, limits, and its tools with their schemas. Of one that no worker has loaded there is no more than the list says.',
  params: z.object({ id: z.string().describe('Agent id') }),
  response: { 200: agentDetail, ...errors },
});

const whoamiRoute = route('read', {
  operationId: 'getIdentity',
  summary: 'Say whose key this is',
  description: 'The tenant that the API key names, and whether it may do what needs the scope `admin` (`operator`).',
  response: { 200: z.object({ tenant: z.string(), rights: z.enum(['operator', 'caller']) }), ...errors },
});

export function serviceRoutes(app: App, { metrics, openAnswers, readiness }: Services): void {
  const config = { access: 'open' } as const;
  // Never asks Redis: restarting a producer does not bring Redis back.
  const probes = { '/healthz': 'checkHealth', '/livez': 'checkLiveness' };
  for (const [url, operationId] of Object.entries(probes))
    app.get(url, { schema: { ...liveSchema, operationId }, config, exposeHeadRoute: true }, async () => ({
      status: 'ok' as const,
    }));
  app.get('/readyz', { schema: readySchema, config, exposeHeadRoute: true }, async (_request, reply) => {
    const answer = openAnswers.draining ? { status: 'draining' as const } : await readiness.look();
    return await reply.code(answer.status === 'ready' ? 200 : 503).send(answer);
  });
  app.get('/metrics', { schema: scrapeSchema, config }, async (_request, reply) => {
    const { contentType, body } = await metrics.scrape();
    return await reply.type(contentType).send(body);
  });
  app.get('/openapi.json', { schema: { hide: true }, config }, async () => app.swagger());
  app.get('/v1/whoami', whoamiRoute, async ({ tenant, rights }) => ({ tenant, rights }));
  app.get('/v1/agents', agentsRoute, async ({ mill }) => ({
    agents: [...(await mill.agents())],
  }));
  app.get('/v1/agents/:id', agentRoute, async ({ mill, params }) => ({ ...(await mill.agent(params.id)) }));
}
