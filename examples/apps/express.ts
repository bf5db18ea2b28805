// oxlint-disable oxc/no-async-endpoint-handlers -- Express 5 awaits its handlers
import express from 'express';
import { Readable } from 'node:stream';
import { ask, follow } from './runs.ts';

export const app = express();

app.post('/ask', express.json(), async (request, response) => {
  const answer = await ask(request.body);
  response.status(answer.status).json(await answer.json());
});

app.get('/runs/:runId/events', async (request, response) => {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const headers = { 'last-event-id': request.get('last-event-id') ?? '0' };
  const answer = await follow(request.params.runId, new Request('http://app/', { headers, signal: gone.signal }));
  response.status(answer.status).setHeaders(answer.headers);
  Readable.from(answer.body!)
    .on('error', () => response.end())
    .pipe(response);
});
