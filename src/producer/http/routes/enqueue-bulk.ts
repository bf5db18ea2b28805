import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { errorInfo, errorTable, RunError, type ErrorInfo } from '../../../shared/errors.ts';
import { maxBulk, runRequest } from '../../../shared/run.ts';
import type { App, Services } from '../app.ts';
import { bodyText, isDeeperThan, maxJsonDepth } from '../json-body.ts';
import type { BulkAnswer } from '../../enqueue.ts';
import { acceptedRun, errorBody } from '../openapi.ts';

const maxBodyBytes = 64 * 1024 * 1024;

const schema = {
  summary: 'Start many runs',
  description: `A JSON array, or NDJSON with one request a line (\`application/x-ndjson\`); at most ${maxBulk} runs and ${maxBodyBytes / 1024 / 1024} MiB. Answers one entry per request, in order; a refused request does not hinder the others.`,
  consumes: ['application/json', 'application/x-ndjson'],
  body: z.array(runRequest).max(maxBulk),
  response: {
    200: z.array(z.union([acceptedRun, z.object({ error: errorInfo })])),
    '4xx': errorBody,
    '5xx': errorBody,
  },
};

/** `POST /v1/runs/bulk`. */
export function enqueueBulk(app: App, { metrics }: Services): void {
  // Lines stay bytes until the route: nothing that JSON can say looks like them.
  app.addContentTypeParser(
    'application/x-ndjson',
    { parseAs: 'buffer' },
    async (_request: unknown, body: Buffer) => body,
  );
  app.route({
    method: 'POST',
    url: '/v1/runs/bulk',
    schema,
    bodyLimit: maxBodyBytes,
    config: { access: 'write', bodyIsList: true },
    handler: async (request) => {
      const items = itemsOf(request.body, request.headers);
      const answers = await acceptAll(items, (requests) => request.mill.enqueueMany(requests));
      for (const answer of answers) metrics.runAsked(outcomeOf(answer));
      return [...answers];
    },
  });
}

/** One place in the list. A line that is not JSON has its place like any other refusal. */
type Item = { readonly request: unknown } | { readonly error: ErrorInfo };

function itemsOf(body: unknown, headers: IncomingHttpHeaders): Item[] {
  if (Array.isArray(body)) return body.map((request) => ({ request }));
  if (body !== undefined && body !== null && !Buffer.isBuffer(body))
    throw new RunError('validation', 'the body must be an array, or one object a line');
  const text = body && bodyText(body, headers);
  if (!text) throw new RunError('invalid_json', 'the body is empty');
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  if (lines.length > maxBulk) throw new RunError('validation', `at most ${maxBulk} runs in one request`);
  return lines.map(itemOfLine);
}

function itemOfLine(line: string): Item {
  if (isDeeperThan(Buffer.from(line), maxJsonDepth))
    return refused('too_deep', `the line is nested deeper than ${maxJsonDepth} levels`);
  try {
    return { request: JSON.parse(line) };
  } catch {
    return refused('invalid_json', 'the line is not JSON');
  }
}

function refused(code: 'too_deep' | 'invalid_json', message: string): Item {
  return { error: { code, message, retryable: errorTable[code].retryable } };
}

async function acceptAll(
  items: readonly Item[],
  accept: (requests: readonly unknown[]) => Promise<readonly BulkAnswer[]>,
): Promise<readonly BulkAnswer[]> {
  const accepted = (await accept(items.flatMap((item) => ('error' in item ? [] : [item.request])))).values();
  return items.map((item) => ('error' in item ? item : (accepted.next().value as BulkAnswer)));
}

function outcomeOf(answer: BulkAnswer): 'accepted' | 'attached' | 'refused' {
  if ('error' in answer) return 'refused';
  return answer.attached ? 'attached' : 'accepted';
}
