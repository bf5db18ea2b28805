import { z } from 'zod';
import { handleOf, mediaSha256 } from '../../../shared/contract/media.ts';
import type { App } from '../app.ts';
import { errorBody } from '../openapi.ts';

const schema = {
  summary: 'Read a generated file',
  description:
    'The bytes behind a handle `media://sha256-…` of a result, with their content type. Kept as long as results are.',
  produces: ['application/octet-stream'],
  params: z.object({ sha256: mediaSha256.describe('The digits of the handle.') }),
  response: { '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/media/:sha256`. What a provider made is shown by no browser as a page of ours. */
export function readMediaRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/media/:sha256',
    schema,
    config: { access: 'read' },
    handler: async ({ mill, params }, reply) => {
      const { mediaType, bytes } = await mill.media(handleOf(params.sha256));
      void reply.headers({ 'content-security-policy': "default-src 'none'; sandbox", 'content-disposition': 'inline' });
      return await reply.type(mediaType).send(bytes as never);
    },
  });
}
