import { z } from 'zod';
import { defined } from '../../../shared/base/collections.ts';
import { publicId } from '../../../shared/base/ids.ts';
import { RunError } from '../../../shared/base/errors.ts';
import { erasureKeyView, erasureReceipt } from '../../../shared/contract/erasure/receipt.ts';
import { erasureAnswer } from '../../client/erase/request.ts';
import type { App } from '../app.ts';
import { errors, route, runIdParam, wholeNumberParam } from '../openapi.ts';
import { metadataName } from './read-runs.ts';

const flag = z.enum(['true', 'false']).optional();
const flags = {
  cancel: flag.describe('`true`: what has not ended is cancelled first.'),
  threads: flag.describe('`true`: also the threads of these runs, with all runs of them.'),
};

/** For answers that got lost on their way. */
export const erasureHeaders = z.object({
  'idempotency-key': publicId
    .optional()
    .describe('The same request again under the same key, within an hour or at the same time, has the same answer.'),
});

const eraseRunRoute = route('admin', {
  operationId: 'eraseRun',
  summary: 'Erase a run',
  description:
    'With its children: record, journal, events, decisions, archive, kept results, progress notes, files that no other run refers to, its lines in the files of its batch. Answers a signed receipt. A run that has not ended answers 409 `concurrent_run` unless `cancel=true`, one of a batch that has not ended always; one whose thread has its text answers 400 `validation` unless `threads=true`, and so does a child, which is erased with its parent. The same request again after a failure goes on; once it is done it answers 410 `gone` with `details.reason` `erased`, as long as ids are remembered.',
  headers: erasureHeaders,
  params: runIdParam,
  querystring: z.strictObject(flags),
  response: { 200: z.object({ receipt: erasureReceipt }), ...errors },
});

const eraseRunsRoute = route('admin', {
  operationId: 'eraseRuns',
  summary: 'Erase the runs with some metadata',
  description:
    'As for one run, for all runs whose metadata has each `metadata.KEY=VALUE` that is given; at least one is needed. What cannot be erased is in `kept`, with the reason. While there is a `cursor` send the request again with it: each answer has a receipt of its own.',
  headers: erasureHeaders,
  querystring: z.looseObject({
    ...flags,
    cursor: z.string().max(256).optional().describe('From the previous answer.'),
    limit: wholeNumberParam(1, 1_000).optional().describe('At most so many runs that fit. Default 100.'),
  }),
  response: { 200: erasureAnswer, ...errors },
});

const erasureKeyRoute = route('read', {
  operationId: 'readErasureKey',
  summary: 'Read the key that receipts are signed with',
  description:
    'The public half. A receipt is verified by `millrace receipt verify`, by `verifyReceipt` of the package, or by any Ed25519 over the JSON of its fields but `keyId` and `signature`, with sorted keys and without spaces.',
  response: { 200: erasureKeyView, ...errors },
});

export function erasureRoutes(app: App): void {
  app.delete('/v1/runs/:id', eraseRunRoute, async ({ mill, params, query, headers }) => {
    const how = { cancel: query.cancel === 'true', threads: query.threads === 'true' };
    const idempotencyKey = headers['idempotency-key'];
    const { receipt } = await mill.erase(defined({ run: params.id, ...how, idempotencyKey }));
    return { receipt };
  });
  app.delete('/v1/runs', eraseRunsRoute, async ({ mill, query, headers }) => {
    const { cancel, threads, cursor, limit, ...labels } = query;
    const metadata = metadataOf(labels);
    const how = { cancel: cancel === 'true', threads: threads === 'true' };
    const idempotencyKey = headers['idempotency-key'];
    const asked = defined({ metadata, ...how, cursor, limit, idempotencyKey });
    const { receipt, kept, cursor: next } = await mill.erase(asked);
    return { receipt, kept: [...kept], cursor: next };
  });
  app.get('/v1/erasure-key', erasureKeyRoute, async ({ mill }) => await mill.erasureKey());
}

function metadataOf(query: Readonly<Record<string, unknown>>): Record<string, string> {
  const entries = Object.entries(query).map(([name, value]): [string, string] => {
    if (name.startsWith(metadataName) && typeof value === 'string') return [name.slice(metadataName.length), value];
    throw new RunError(
      'validation',
      `${publicId.safeParse(name).data ?? 'a parameter'}: is not known here, or given twice`,
    );
  });
  return Object.fromEntries(entries);
}
