import type { App } from '../app.ts';
import { consoleHtml, consolePolicy } from '../console-page.ts';

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
