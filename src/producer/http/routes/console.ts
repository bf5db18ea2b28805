import type { FastifyReply, FastifyRequest } from 'fastify';
import { RunError } from '../../../shared/base/errors.ts';
import type { App, Services } from '../app.ts';
import { consolePolicy, readConsole, type ConsoleFile } from '../console-files.ts';

/** The views that have an address of their own; the page finds out by itself which one it shows. */
const views = [
  '/',
  '/login',
  '/runs',
  '/runs/:id',
  '/approvals',
  '/threads',
  '/threads/:id',
  '/batches',
  '/batches/:id',
  '/agents',
  '/agents/:id',
  '/money',
  '/fleet',
  '/audit',
];

const notBuilt = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Millrace</title>
<h1>The console is not built</h1>
<p>This producer runs from source. Run <code>node scripts/setup.mjs console</code> and start it again. The API works without it.</p>
</html>
`;

const pageHeaders = {
  'content-security-policy': consolePolicy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
} as const;

/**
 * The console: a page for all views, and the files it loads. They show nothing of any run, so they need no key. A browser that
 * comes to an address without a route gets the page, too, which leads back to the views; every other client gets the error.
 */
export function consoleRoutes(app: App, { consoleFolder }: Services): void {
  const built = readConsole(consoleFolder);
  const options = { schema: { hide: true }, config: { access: 'open' } } as const;
  for (const url of views)
    app.get(url, options, async (request, reply) => {
      void reply.headers(pageHeaders);
      if (!built) return await reply.code(503).type('text/html; charset=utf-8').send(notBuilt);
      return await sendFile(built.page, 'no-cache', request, reply);
    });
  app.setNotFoundHandler(async (request, reply) => {
    if (!built || !isVisit(request)) throw new RunError('not_found', 'there is no such route');
    const { mediaType, bytes } = built.page;
    return await reply.code(404).headers(pageHeaders).header('vary', 'accept').type(mediaType).send(bytes);
  });
  app.get<{ Params: { name: string } }>('/assets/:name', options, async (request, reply) => {
    const file = built?.assets.get(request.params.name);
    if (!file) throw new RunError('not_found', 'there is no such file; reload the page');
    // Its name changes with its content.
    return await sendFile(file, 'public, max-age=31536000, immutable', request, reply);
  });
}

/** A browser that opens an address, which is none of the API's. */
function isVisit({ method, url, headers }: FastifyRequest): boolean {
  return method === 'GET' && !/^\/v1(?:[/?]|$)/.test(url) && /\btext\/html\b/.test(headers.accept ?? '');
}

async function sendFile(file: ConsoleFile, cache: string, { headers }: FastifyRequest, reply: FastifyReply) {
  void reply.headers({ 'cache-control': cache, etag: file.etag, vary: 'accept-encoding' });
  if (headers['if-none-match'] === file.etag) return await reply.code(304).send();
  void reply.type(file.mediaType);
  if (!/\bgzip\b/.test(headers['accept-encoding'] ?? '')) return await reply.send(file.bytes);
  return await reply.header('content-encoding', 'gzip').send(file.gzipped);
}
