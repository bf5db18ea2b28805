import type { App, Services } from '../app.ts';

const schema = { summary: 'Metrics for Prometheus', produces: ['text/plain'] };

/** `GET /metrics`. */
export function scrapeRoute(app: App, { metrics }: Services): void {
  app.route({
    method: 'GET',
    url: '/metrics',
    schema,
    config: { access: 'open' },
    handler: async (_request, reply) => {
      const { contentType, body } = await metrics.scrape();
      return await reply.type(contentType).send(body);
    },
  });
}
