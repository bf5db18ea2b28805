import fastify from 'fastify';
import { ask, follow } from './runs.ts';

export const app = fastify();

app.post('/ask', ({ body }) => ask(body));

app.get<{ Params: { runId: string } }>('/runs/:runId/events', (request, reply) => {
  const gone = new AbortController();
  reply.raw.on('close', () => gone.abort());
  const headers = { 'last-event-id': String(request.headers['last-event-id'] ?? 0) };
  return follow(request.params.runId, new Request('http://app/', { headers, signal: gone.signal }));
});
