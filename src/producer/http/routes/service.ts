import { z } from 'zod';
import type { App, Services } from '../app.ts';
import { consoleHtml, consolePolicy } from '../console.ts';
import { agentView } from '../../../shared/contract/agent/agent.ts';
import { errorBody } from '../openapi.ts';

const readinessBody = z.object({
  status: z.enum(['ready', 'not_ready', 'draining']),
  redis: z.enum(['ok', 'refuses', 'away']).optional(),
  durability: z.enum(['none', 'process', 'host', 'replica']).optional(),
  reason: z.string().optional(),
  unservedQueues: z.array(z.string()).readonly().optional().describe('Run queues that no live worker serves.'),
});

const open = { config: { access: 'open' }, exposeHeadRoute: true } as const;
const liveSchema = {
  summary: 'Is the process alive?',
  response: { 200: z.object({ status: z.literal('ok') }) },
};
const readySchema = {
  summary: 'Can this producer take work?',
  description: 'Whether Redis takes writes, and the durability level in force: what an acknowledged run survives.',
  response: { 200: readinessBody, 503: readinessBody },
};

/** `/healthz` (also `/livez`) never asks Redis: restarting a producer does not bring Redis back. `/readyz` does. */
export function healthRoute(app: App, { readiness, openAnswers }: Services): void {
  for (const url of ['/healthz', '/livez']) {
    app.route({ method: 'GET', url, ...open, schema: liveSchema, handler: async () => ({ status: 'ok' as const }) });
  }
  app.route({
    method: 'GET',
    url: '/readyz',
    ...open,
    schema: readySchema,
    handler: async (_request, reply) => {
      const answer = openAnswers.draining ? { status: 'draining' as const } : await readiness.look();
      return await reply.code(answer.status === 'ready' ? 200 : 503).send(answer);
    },
  });
}

const scrapeSchema = { summary: 'Metrics for Prometheus', produces: ['text/plain'] };

/** `GET /metrics`. */
export function scrapeRoute(app: App, { metrics }: Services): void {
  app.route({
    method: 'GET',
    url: '/metrics',
    schema: scrapeSchema,
    config: { access: 'open' },
    handler: async (_request, reply) => {
      const { contentType, body } = await metrics.scrape();
      return await reply.type(contentType).send(body);
    },
  });
}

/** `GET /openapi.json`: this API, made from the schemas that the routes declare. */
export function openApiDocumentRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/openapi.json',
    schema: { hide: true },
    config: { access: 'open' },
    handler: async () => app.swagger(),
  });
}

/** `GET /`: the console, one page without anything from elsewhere. */
export function consolePageRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/',
    schema: { hide: true },
    config: { access: 'open' },
    handler: async (_request, reply) => {
      void reply.headers({ 'content-security-policy': consolePolicy, 'referrer-policy': 'no-referrer' });
      return await reply.type('text/html; charset=utf-8').send(consoleHtml);
    },
  });
}

const agentsSchema = {
  summary: 'List agents',
  description: 'The agents that workers and producers have loaded.',
  response: { 200: z.object({ agents: z.array(agentView) }), '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/agents`. */
export function listAgentsRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/agents',
    schema: agentsSchema,
    config: { access: 'read' },
    handler: async ({ mill }) => ({ agents: [...(await mill.agents())] }),
  });
}
