import { defined } from '../../../shared/base/collections.ts';
import { runExportAnswer } from '../../../shared/contract/archive/run-export.ts';
import { runSteps } from '../../../shared/contract/archive/run-steps.ts';
import { runView, runStatus, isTerminalStatus, runOutcomeView } from '../../../shared/contract/run.ts';
import type { App, Services } from '../app.ts';
import { errors, route, runIdParam, wholeNumberParam } from '../openapi.ts';
import { z } from 'zod';
import { publicId, runId } from '../../../shared/base/ids.ts';
import { maxNotesRead, progressNote } from '../../../shared/contract/artifacts.ts';
import { progressDraft, progressEntry } from '../../client/artifacts.ts';
import { runCounts } from '../../client/many-runs.ts';
import { runTime } from '../../client/run-filter.ts';
import { errorCode, RunError } from '../../../shared/base/errors.ts';
import { handleOf, mediaSha256 } from '../../../shared/contract/media.ts';

const getRunRoute = route('read', {
  operationId: 'getRun',
  summary: 'Read a run',
  description:
    'What was asked, status, result, usage, cost in microcents (1e-8 USD), steps, attempts, and what a suspended run waits for. After `RESULT_TTL_S` from the archive; 410 `gone` once the run is past `ARCHIVE_TTL_S`.',
  params: runIdParam,
  response: { 200: runView, ...errors },
});

const getStepsRoute = route('read', {
  operationId: 'getRunSteps',
  summary: 'Read what a run did, step by step',
  description:
    'Each step: what the model was asked beyond the step before, its answer, its calls with arguments and results, attempts, fallbacks, cost and times. Beside them: the conversation before the first answer, stays on workers, waits and who ended them, children. Also while the run works; after its end from the archive, for `ARCHIVE_TTL_S`. Results of secret tools are withheld, and credentials are masked. 410 `gone` once the run is past its time.',
  params: runIdParam,
  response: { 200: runSteps, ...errors },
});

const exportRunRoute = route('read', {
  operationId: 'exportRun',
  summary: 'Read a run as one document',
  description:
    'The run, its request, its steps and its events without text deltas, the definition of its agent, and the same of up to 199 runs that worked for it, as long as all of it stays within about 64 MiB: what `millrace replay` reads.',
  params: runIdParam,
  response: { 200: runExportAnswer, ...errors },
});

const listRunsRoute = route('read', {
  operationId: 'listRuns',
  summary: 'List runs, newest first',
  description:
    'A page may have fewer runs than `limit`, even none, and still have a `cursor`; no cursor means the end. `metadata.KEY=VALUE`, also several of them, asks for runs whose metadata has this.',
  querystring: z.looseObject({
    status: runStatus.optional(),
    agent: publicId.optional(),
    thread: publicId.optional(),
    batch: publicId.optional(),
    errorCode: errorCode.optional().describe('Only runs that failed with this code.'),
    minCostMicrocents: wholeNumberParam(0, Number.MAX_SAFE_INTEGER)
      .optional()
      .describe('Only runs that have cost at least so much by now.'),
    after: runTime.optional().describe('Only runs created at this time or later.'),
    before: runTime.optional().describe('Only runs created before this time.'),
    parent: runId.optional().describe('Only children of this run.'),
    cursor: z.string().max(256).optional().describe('From the previous page.'),
    limit: wholeNumberParam(1, 100).optional().describe('Default 50.'),
    counts: z.enum(['true', 'false']).optional().describe('Also count all runs that fit, by status.'),
  }),
  response: {
    200: z.object({ runs: z.array(runView), cursor: z.string().optional(), counts: runCounts.optional() }),
    ...errors,
  },
});

const maxWaitS = 60;

const seconds = z
  .string()
  .refine((text) => /^\d{1,3}(\.\d{1,3})?$/.test(text), 'must be a number of seconds')
  .meta({ type: 'number', minimum: 0, maximum: maxWaitS })
  .transform(Number)
  .pipe(z.number().max(maxWaitS));

const runResultSchema = {
  operationId: 'waitForResult',
  summary: 'Wait for the result of a run',
  description: 'Answers 200 once the run has ended, however it ended, and 202 with its status when `wait` ends before.',
  params: runIdParam,
  querystring: z.object({ wait: seconds.optional().describe('Seconds to wait, 0 to 60. Default 0: answers at once.') }),
  response: { 200: runOutcomeView, 202: runOutcomeView, ...errors },
};

const runProgressRoute = route('read', {
  operationId: 'listProgressNotes',
  summary: 'Read the progress notes of a run',
  description:
    'What agents wrote down with `progress_write`, by number and then by role. Notes outlive their run: see `PROGRESS_RETENTION_DAYS`. `text` is missing where the producer cannot read it.',
  params: runIdParam,
  querystring: z.object({
    role: z.string().optional().describe('Only notes of this role.'),
    sinceSeq: z.coerce.number().optional().describe('Only notes with a higher number.'),
    maxArtifacts: z.coerce.number().optional().describe(`1 to ${maxNotesRead}, which is the default.`),
  }),
  response: { 200: z.object({ notes: z.array(progressEntry) }), ...errors },
});

const writeProgressRoute = route('write', {
  operationId: 'writeProgressNote',
  summary: 'Write a progress note',
  description:
    'Leaves a note for the agents of the run, other programs and people. Notes are numbered and never changed. The same `Idempotency-Key` again answers the note that there is. A number that is taken is 409 `progress_write_failed`.',
  params: runIdParam,
  headers: z.object({ 'idempotency-key': z.string().max(256).optional() }),
  body: progressDraft,
  response: { 201: progressNote, ...errors },
});

const mediaRoute = route('read', {
  operationId: 'readMedia',
  summary: 'Read a generated file',
  description:
    'The bytes behind a handle `media://sha256-…` of a result, with their content type. Kept as long as results are.',
  produces: ['application/octet-stream'],
  params: z.object({ sha256: mediaSha256.describe('The digits of the handle.') }),
  response: { ...errors },
});

/** What the names of parameters begin with that are conditions on metadata. */
export const metadataName = 'metadata.';

/** The parameters `metadata.KEY` as one field. Throws `validation` for a key that is given twice. */
function withMetadata<T extends Readonly<Record<string, unknown>>>(query: T) {
  const labels = Object.entries(query).filter(([name]) => name.startsWith(metadataName));
  const twice = labels.find(([, value]) => typeof value !== 'string');
  if (twice) throw new RunError('validation', `${twice[0]}: give it once`);
  const rest = Object.fromEntries(Object.entries(query).filter(([name]) => !name.startsWith(metadataName))) as T;
  if (labels.length === 0) return rest;
  const metadata = Object.fromEntries(labels.map(([name, value]) => [name.slice(metadataName.length), String(value)]));
  return { ...rest, metadata };
}

export function readRunRoutes(app: App, { openAnswers }: Services): void {
  app.get('/v1/runs/:id', getRunRoute, async ({ mill, params }) => await mill.get(params.id));
  app.get('/v1/runs/:id/steps', getStepsRoute, async ({ mill, params }) => await mill.steps(params.id));
  app.get('/v1/runs/:id/export', exportRunRoute, async ({ mill, params }) => await mill.export(params.id));
  app.get('/v1/runs', listRunsRoute, async ({ mill, query }) => {
    const { cursor: from, limit, counts: counted, ...filter } = withMetadata(query);
    const [{ runs, cursor }, counts] = await Promise.all([
      mill.list(defined({ ...filter, cursor: from, limit })),
      counted === 'true' ? mill.count(filter) : undefined,
    ]);
    return { runs: [...runs], cursor, counts };
  });
  // A client that goes away ends the wait; when the process drains, the wait ends early.
  app.get(
    '/v1/runs/:id/result',
    { schema: runResultSchema, config: { access: 'read', waits: true } },
    async ({ mill, params, query }, reply) => {
      using answer = openAnswers.wait(reply.raw);
      const waitMs = (query.wait ?? 0) * 1_000;
      const outcome = await mill.result(params.id, { waitMs, signal: answer.signal }).catch(async (error: unknown) => {
        if (!answer.signal.aborted) throw error;
        return await mill.result(params.id, { waitMs: 0 });
      });
      return await reply.code(isTerminalStatus(outcome.status) ? 200 : 202).send(outcome);
    },
  );
  app.get(
    '/v1/runs/:id/progress',
    runProgressRoute,
    async ({ mill, params, query: { role, sinceSeq, maxArtifacts } }) => ({
      notes: [...(await mill.progress(params.id, defined({ role, sinceSeq, maxArtifacts })))],
    }),
  );
  app.post(
    '/v1/runs/:id/progress',
    writeProgressRoute,
    async ({ mill, params, body, headers: { 'idempotency-key': idempotencyKey } }, reply) =>
      await reply.code(201).send(await mill.writeProgress(params.id, body, defined({ idempotencyKey }))),
  );
  // No browser shows what a provider made as a page of ours.
  app.get('/v1/media/:sha256', mediaRoute, async ({ mill, params }, reply) => {
    const { mediaType, bytes } = await mill.media(handleOf(params.sha256));
    void reply.headers({ 'content-security-policy': "default-src 'none'; sandbox", 'content-disposition': 'inline' });
    return await reply.type(mediaType).send(bytes as never);
  });
}
