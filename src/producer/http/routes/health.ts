import { z } from 'zod';
import type { App, Services } from '../app.ts';

const readyness = z.object({
  status: z.enum(['ready', 'not_ready', 'leaving']),
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
  description:
    'Asks whether Redis takes writes, and tells the durability level in force: what an acknowledged run survives.',
  response: { 200: readyness, 503: readyness },
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
      const answer = openAnswers.leaving ? { status: 'leaving' as const } : await readiness.look();
      return await reply.code(answer.status === 'ready' ? 200 : 503).send(answer);
    },
  });
}
