import { RunError, errorInfo, type ErrorInfo } from '../../../shared/base/errors.ts';
import { runRequestBody, type RunRequestInput, maxBulk } from '../../../shared/contract/run.ts';
import { z } from 'zod';
import type { App, Services } from '../app.ts';
import { acceptedRun, errors, route } from '../openapi.ts';
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { inBatches } from '../../../shared/base/collections.ts';
import type { FastifyRequest } from 'fastify';
import { jsonText } from '../../../shared/base/json.ts';
import type { BulkAnswer } from '../../client/enqueue.ts';
import type { BodyShare } from '../body-room.ts';
import { ArrayScanner, LineScanner, maxItemBytes, type Span } from '../bulk-items.ts';
import { errorAnswer } from '../error-answer.ts';
import { checkEncoding, jsonParser, bodyChunks, BodyBytes } from '../read-body.ts';

const enqueueRoute = route('write', {
  operationId: 'startRun',
  summary: 'Start a run',
  description:
    'The same execution id with the same body answers with the same run for at least 24 hours, also after it has ended; with another body it answers 409 `idempotency_conflict`. After a 503 it is unknown whether the run exists: repeat with the same execution id.',
  headers: z.object({ 'idempotency-key': z.string().optional().describe('The same as `executionId` in the body.') }),
  body: runRequestBody,
  response: { 202: acceptedRun, ...errors },
});

export function startRunRoute(app: App, { metrics }: Services): void {
  app.post('/v1/runs', enqueueRoute, async ({ mill, body, headers }, reply) => {
    const run = await metrics.asking(
      async () => await mill.enqueue(withExecutionId(body, headers['idempotency-key']) as RunRequestInput),
    );
    const { runId, status = 'queued', attached, warnings } = run;
    return await reply
      .code(202)
      .header('location', `/v1/runs/${runId}`)
      .send({ runId, status, attached, warnings: warnings.length > 0 ? warnings : undefined });
  });
}

function withExecutionId(body: unknown, key: string | undefined): unknown {
  if (body === undefined || body === null) throw new RunError('invalid_json', 'the body is empty');
  if (key === undefined || typeof body !== 'object') return body;
  if ('executionId' in body && body.executionId !== key) {
    throw new RunError('validation', 'the header Idempotency-Key and executionId differ: give one of them');
  }
  return { ...body, executionId: key };
}

const maxBodyBytes = 64 * 1024 * 1024;
const mebibyte = 1024 * 1024;
/** What is parsed and accepted at a time. Parsed JSON may need thirty times the bytes that it is written in. */
const groupBounds = { most: 1_000, maxBytes: 256 * 1024 };

const bulkRoute = route('write', {
  operationId: 'startRuns',
  summary: 'Start many runs',
  description: `A JSON array, or NDJSON with one request a line (\`application/x-ndjson\`); at most ${maxBulk} runs and ${maxBodyBytes / mebibyte} MiB, each run at most ${maxItemBytes / mebibyte} MiB. Answers one entry per request, in order; a refused request does not hinder the others. Nothing is started before the whole body has arrived. A client that goes away ends it: what was not started by then is not. While other large requests are read this one waits, and answers 503 \`overloaded\` with \`Retry-After\` after a minute.`,
  consumes: ['application/json', 'application/x-ndjson'],
  body: z.array(runRequestBody).max(maxBulk),
  response: {
    200: z.array(z.union([acceptedRun, z.object({ error: errorInfo })])),
    ...errors,
  },
});

export function startManyRoute(app: App, { metrics, redactor, bodyRoom, openAnswers }: Services): void {
  const parse = jsonParser(app);
  app.removeAllContentTypeParsers();
  // The bytes are read by the handler, which knows when they are needed no longer.
  for (const type of bulkRoute.schema.consumes)
    app.addContentTypeParser(type, async (_: unknown, payload: Readable) => payload);
  app.post('/v1/runs/bulk', bulkRoute, async (request, reply) => {
    const infoOf = (error: unknown) => errorAnswer(error, request.id, redactor).body.error;
    const itemOf = (json: Buffer): Item => {
      try {
        return { request: parse(request, json) };
      } catch (error) {
        return { error: infoOf(error) };
      }
    };
    const share = bodyRoom.open();
    // Also for an answer that its client does not read to the end.
    reply.raw.once('close', () => share[Symbol.dispose]());
    using waiting = openAnswers.wait(reply.raw);
    const answers = answersTo(request, { share, itemOf, infoOf, signal: waiting.signal });
    // An error before the first answer has a status of its own.
    const first = await answers.next();
    const lines = async function* () {
      yield '[';
      let separator = '';
      for (let step = first; !step.done && !reply.raw.destroyed; step = await answers.next()) {
        for (const answer of step.value) metrics.runAsked(outcomeOf(answer));
        yield separator + step.value.map((answer) => jsonText(answer)).join(',');
        separator = ',';
      }
      yield ']';
    };
    void reply.type('application/json; charset=utf-8');
    return Readable.from(lines()) as unknown as BulkAnswer[];
  });
}

/** One entry of the list. A line that is not JSON is an entry too, a refused one. */
type Item = { readonly request: unknown } | { readonly error: ErrorInfo };

interface BulkReading {
  readonly share: BodyShare;
  readonly itemOf: (json: Buffer) => Item;
  readonly infoOf: (error: unknown) => ErrorInfo;
  readonly signal: AbortSignal;
}

/** Reads the whole body, then parses and accepts it group by group. */
async function* answersTo(
  { body, headers, mill }: FastifyRequest,
  { share, itemOf, infoOf, signal }: BulkReading,
): AsyncGenerator<readonly BulkAnswer[], void, void> {
  if (!(body instanceof Readable)) throw new RunError('invalid_json', 'the body is empty');
  using bytes = new BodyBytes();
  const spans = await scan(body, headers, bytes, share, signal);
  let unavailable: RunError | undefined;
  for (const group of inBatches(spans, ({ start, end }) => end - start, groupBounds)) {
    const items = group.map(({ start, end }) =>
      end - start > maxItemBytes ? tooLarge(infoOf) : itemOf(bytes.take(start, end)),
    );
    try {
      if (unavailable) throw unavailable;
      yield await acceptAll(items, (requests) => mill.enqueueMany(requests));
    } catch (error) {
      // Redis went away after runs were accepted: the caller must learn which. Asking again for each group takes minutes.
      if (group[0] === spans[0] || !(error instanceof RunError) || error.code !== 'queue_unavailable') throw error;
      unavailable = error;
      yield items.map((item) => ('error' in item ? item : { error: infoOf(error) }));
    }
  }
}

async function scan(
  payload: Readable,
  headers: IncomingHttpHeaders,
  bytes: BodyBytes,
  share: BodyShare,
  signal: AbortSignal,
): Promise<readonly Span[]> {
  checkEncoding(headers);
  const isLines = headers['content-type']?.toLowerCase().startsWith('application/x-ndjson');
  const scanner = isLines ? new LineScanner() : new ArrayScanner();
  for await (const chunk of bodyChunks(payload, { limitBytes: maxBodyBytes, share, signal })) {
    scanner.write(chunk);
    bytes.add(chunk);
  }
  return scanner.end();
}

function tooLarge(infoOf: (error: unknown) => ErrorInfo): Item {
  return { error: infoOf(new RunError('payload_too_large', `the line is over ${maxItemBytes} bytes`)) };
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
