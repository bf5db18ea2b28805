import { Readable } from 'node:stream';
import { jsonText } from '../../../shared/base/json-text.ts';
import type { App } from '../app.ts';
import { errorBody, threadIdParam } from '../openapi.ts';

const schema = {
  summary: 'Export a thread',
  description:
    'One JSON document a line: the thread, then every entry of its log as it is kept, with its number. A handoff has the descriptor of its filter, and with the other lines what is needed to rebuild what crossed. What a run that is at work has done is not in it yet. A connection that breaks off before the end of the answer is an export that failed.',
  produces: ['application/x-ndjson'],
  params: threadIdParam,
  response: { '4xx': errorBody, '5xx': errorBody },
};

/** `GET /v1/threads/:id/export`. Errors that are known before the first line are JSON with their status. */
export function exportThreadRoute(app: App): void {
  app.route({
    method: 'GET',
    url: '/v1/threads/:id/export',
    schema,
    config: { access: 'read', waits: true },
    handler: async ({ mill, params }, reply) => {
      const lines = mill.threads.export(params.id);
      const first = await lines.next();
      const written = async function* () {
        for (let line = first; !line.done; line = await lines.next()) yield `${jsonText(line.value)}\n`;
      };
      const body = Readable.from(written(), { objectMode: false });
      return await reply.type('application/x-ndjson; charset=utf-8').send(body as never);
    },
  });
}
