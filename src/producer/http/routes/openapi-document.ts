import type { App } from '../app.ts';

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
