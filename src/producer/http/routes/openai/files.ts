import multipart from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import {
  fileView,
  type FileView,
  maxFileTtlS,
  maxListedFiles,
  maxPartBytes,
  minFileTtlS,
  uploadPurpose,
} from '../../../../shared/contract/files.ts';
import type { FileAbout } from '../../../client/files/files.ts';
import type { App, Services } from '../../app.ts';
import { BodyRoom } from '../../body-room.ts';
import { route, wholeNumberParam } from '../../openapi.ts';
import { bytesAnswer, sendBytes } from '../../send-bytes.ts';
import { begun, openUpload, problem } from '../../upload.ts';
import { answerErrorsAsOpenAi, wireErrors } from './error-shape.ts';

const idParam = z.object({ id: z.string().describe('File id') });

const uploadRoute = route('write', {
  operationId: 'uploadFile',
  summary: 'Upload a file',
  description:
    'A form with the part `file`, at most 200 MB (16 MiB where `ARTIFACT_STORE` is Redis), streamed into the store of `ARTIFACT_STORE`. `purpose`: `batch` for lines of a batch, `vision` for images, `user_data` or `assistants` for whatever else. The file goes after 7 days, or as `expires_after[anchor]` (`created_at`) and `expires_after[seconds]` (an hour to 30 days) say.',
  consumes: ['multipart/form-data'],
  body: z.object({
    file: z.string().meta({ format: 'binary' }),
    purpose: uploadPurpose,
    'expires_after[anchor]': z.literal('created_at').optional(),
    'expires_after[seconds]': z.int().min(minFileTtlS).max(maxFileTtlS).optional(),
  }),
  response: { 200: fileView, ...wireErrors },
});

const listRoute = route('read', {
  operationId: 'listFiles',
  summary: 'List files, newest first',
  querystring: z.object({
    after: z.string().max(64).optional().describe('The last id of the page before.'),
    limit: wholeNumberParam(1, maxListedFiles).optional().describe('Default 100.'),
    order: z.enum(['asc', 'desc']).optional().describe('Default `desc`.'),
    purpose: fileView.shape.purpose.optional(),
  }),
  response: {
    200: z.object({
      object: z.literal('list'),
      data: z.array(fileView),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    }),
    ...wireErrors,
  },
});

const getRoute = route('read', {
  operationId: 'getFile',
  summary: 'Read what is known of a file',
  params: idParam,
  response: { 200: fileView, ...wireErrors },
});

const contentRoute = route('read', {
  operationId: 'readFile',
  summary: 'Read the bytes of a file',
  description: 'As they were uploaded, or as a batch wrote them, with the content type of the file.',
  params: idParam,
  response: { 200: bytesAnswer, ...wireErrors },
});

const removeRoute = route('write', {
  operationId: 'deleteFile',
  summary: 'Delete a file',
  params: idParam,
  response: { 200: z.object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) }), ...wireErrors },
});

/** Files as OpenAI's API has them. */
export function fileRoutes(app: App, services: Services): void {
  void app.register(multipart, { throwFileSizeLimit: false });
  answerErrorsAsOpenAi(app, services);
  // Each upload has one part of its file in memory, for as long as its client takes: no other body waits for that.
  const room = new BodyRoom({ limitBytes: uploadsAtOnce * maxPartBytes });
  app.post('/v1/files', uploadRoute, (request) => receive(request, room));
  app.get('/v1/files', listRoute, async ({ mill, query }) => {
    const { data, has_more } = await mill.files.list(query);
    return {
      object: 'list' as const,
      data: [...data],
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more,
    };
  });
  app.get('/v1/files/:id', getRoute, async ({ mill, params }) => await mill.files.get(params.id));
  app.get('/v1/files/:id/content', contentRoute, async ({ mill, params }, reply) => {
    const file = await mill.files.get(params.id);
    const bytes = await begun(mill.files.content(params.id));
    return await sendBytes(reply, bytes, { type: file.media_type, filename: file.filename, length: file.bytes });
  });
  app.delete('/v1/files/:id', removeRoute, async ({ mill, params }) => {
    await mill.files.remove(params.id);
    return { id: params.id, object: 'file' as const, deleted: true as const };
  });
}

async function receive(request: FastifyRequest, room: BodyRoom): Promise<FileView> {
  using share = room.open();
  await share.take(maxPartBytes);
  const upload = await openUpload(request);
  const { filename, mediaType, fields } = upload;
  // Clients mostly send it after the file.
  if (fields.has('purpose')) purposeIn(fields);
  return await request.mill.files.upload(upload.bytes, () => ({ filename, mediaType, ...saidIn(fields) }));
}

/** Further ones wait for a minute, and are then answered with `overloaded`. */
const uploadsAtOnce = 64;

const known = new Set(['purpose', 'expires_after[anchor]', 'expires_after[seconds]']);

/** What the fields of the form say. Throws `validation`. */
function saidIn(fields: ReadonlyMap<string, string>): Pick<FileAbout, 'purpose' | 'expiresAfterS'> {
  const unknown = [...fields.keys()].find((name) => !known.has(name));
  if (unknown !== undefined) throw problem(unknown, 'is not a field of this form');
  const purpose = purposeIn(fields);
  const anchor = fields.get('expires_after[anchor]');
  const seconds = fields.get('expires_after[seconds]');
  if (anchor === undefined && seconds === undefined) return { purpose };
  if (anchor !== 'created_at') throw problem('expires_after[anchor]', 'must be created_at');
  const expiresAfterS = Number(/^\d{1,10}$/.exec(seconds ?? '')?.[0]);
  if (!(expiresAfterS >= minFileTtlS && expiresAfterS <= maxFileTtlS))
    throw problem('expires_after[seconds]', `must be a whole number from ${minFileTtlS} to ${maxFileTtlS}`);
  return { purpose, expiresAfterS };
}

function purposeIn(fields: ReadonlyMap<string, string>): FileAbout['purpose'] {
  const purpose = uploadPurpose.safeParse(fields.get('purpose')).data;
  if (!purpose) throw problem('purpose', `must be one of ${uploadPurpose.options.join(', ')}`);
  return purpose;
}
