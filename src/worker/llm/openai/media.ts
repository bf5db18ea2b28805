import { defined } from '../../../shared/base/collections.ts';
import type OpenAI from 'openai';
import { z } from 'zod';
import { systemClock } from '../../../shared/base/clock.ts';
import { maxMediaBytes } from '../../../shared/contract/media.ts';
import { Redactor } from '../../../shared/base/redact.ts';
import { cancelledCall, providerError } from '../errors.ts';
import { createClient, resolveKey, type OpenAiOptions } from './call.ts';
import { brokenOff, errorFromBody, errorFromClient } from './errors.ts';
import type { MediaBytes, MediaCall, MediaPort, MediaStart } from '../provider.ts';
import { gathered, type StreamResponse } from './transport.ts';

/** Pictures take longer than the first word of an answer. */
const generateTimeoutMs = 300_000;
const pollTimeoutMs = 60_000;
/** An answer with several pictures in base 64. */
const maxBodyBytes = 3 * maxMediaBytes;

interface Connection {
  readonly options: OpenAiOptions;
  readonly client: OpenAI;
}

/** OpenAI's images, which come with the answer, and videos, which are jobs. */
export function createOpenAiMedia(options: OpenAiOptions): MediaPort {
  const connection = { options, client: createClient(options) };
  return {
    generateMedia: (call, signal) => generateMedia(connection, call, signal),
    pollMedia: (jobId, signal) => pollVideo(connection, jobId, signal),
  };
}

async function generateMedia(connection: Connection, call: MediaCall, signal: AbortSignal): Promise<MediaStart> {
  switch (call.modality) {
    case 'image':
      return { media: await makeImages(connection, call, signal) };
    case 'video':
      return { jobId: await submitVideo(connection, call, signal) };
    default:
      throw providerError('bad_request', connection.options.id, `makes no ${call.modality} here`);
  }
}

const images = z.object({
  data: z.array(z.object({ b64_json: z.string().optional(), url: z.string().optional() })).min(1),
  output_format: z.string().optional(),
});

async function makeImages(connection: Connection, call: MediaCall, signal: AbortSignal): Promise<MediaBytes[]> {
  const { model, prompt, count, size } = call;
  const body = defined({
    model,
    prompt,
    n: count > 1 ? count : undefined,
    size,
    // Newer models know this form only, and refuse to be asked for it.
    response_format: model.startsWith('dall-e') ? 'b64_json' : undefined,
  });
  const answer = await exchange(connection, 'post', '/images/generations', { body, call }, signal);
  const { data, output_format: format = 'png' } = parsed(connection, images, answer.bytes);
  return data.map(({ b64_json: text }) => {
    if (text === undefined)
      throw providerError(
        'bad_request',
        connection.options.id,
        'answered with a link to an image in place of the image',
      );
    return { bytes: Buffer.from(text, 'base64'), mediaType: format === 'svg' ? 'image/svg+xml' : `image/${format}` };
  });
}

const video = z.object({
  id: z.string().min(1).max(256),
  status: z.string(),
  error: z.unknown().optional(),
});

async function submitVideo(connection: Connection, call: MediaCall, signal: AbortSignal): Promise<string> {
  const { model, prompt, count, seconds, size } = call;
  if (count > 1) throw providerError('bad_request', connection.options.id, 'makes one video at a time');
  const body = defined({ model, prompt, seconds: seconds === undefined ? undefined : String(seconds), size });
  const answer = await exchange(connection, 'post', '/videos', { body, call }, signal);
  return parsed(connection, video, answer.bytes).id;
}

async function pollVideo(connection: Connection, jobId: string, signal: AbortSignal) {
  const path = `/videos/${encodeURIComponent(jobId)}`;
  const answer = await exchange(connection, 'get', path, {}, signal);
  const { status, error } = parsed(connection, video, answer.bytes);
  if (status === 'completed') {
    const content = await exchange(connection, 'get', `${path}/content`, {}, signal);
    return [{ bytes: content.bytes, mediaType: content.mediaType ?? 'video/mp4' }];
  }
  if (status === 'failed')
    throw errorFromBody(connection.options.id, error ?? { message: 'the media job failed without a reason' });
  return undefined;
}

/** One request and the whole of its answer. */
async function exchange(
  { client, options }: Connection,
  method: 'get' | 'post',
  path: string,
  { body, call }: { readonly body?: Readonly<Record<string, unknown>>; readonly call?: MediaCall },
  signal: AbortSignal,
): Promise<{ readonly bytes: Buffer; readonly mediaType: string | undefined }> {
  const { id, clock = systemClock, idempotencyHeader = 'Idempotency-Key' } = options;
  if (signal.aborted) throw cancelledCall(id, signal);
  const timeout = method === 'post' ? generateTimeoutMs : pollTimeoutMs;
  const deadline = AbortSignal.timeout(timeout);
  const both = AbortSignal.any([signal, deadline]);
  let key: string | undefined;
  try {
    key = await resolveKey(options, both);
    const headers: Record<string, string> = { Authorization: `Bearer ${key}` };
    if (call) headers['X-Client-Request-Id'] = call.requestId;
    if (call && idempotencyHeader !== false) headers[idempotencyHeader] = call.idempotencyKey;
    const send = defined({ headers, signal: both, timeout: timeout + 1_000, body });
    const response = (await client[method](path, send).asResponse()) as unknown as StreamResponse;
    const mediaType = response.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
    return { bytes: await bytesOf(response, id), mediaType };
  } catch (thrown) {
    if (signal.aborted) throw cancelledCall(id, signal);
    if (deadline.aborted) throw providerError('timeout', id, `did not answer within ${timeout} ms`);
    const error = errorFromClient(id, thrown, clock.now());
    // Servers quote the key that they refuse.
    error.message = new Redactor(key === undefined ? [] : [key]).text(error.message);
    throw error;
  }
}

async function bytesOf({ body }: StreamResponse, provider: string): Promise<Buffer> {
  const { bytes, broken } = await gathered(body, (size) => {
    if (size <= maxBodyBytes) return true;
    throw providerError('bad_request', provider, `sent more than ${maxBodyBytes} bytes`);
  });
  if (broken) throw brokenOff(provider, broken);
  return bytes;
}

function parsed<T>({ options: { id } }: Connection, schema: z.ZodType<T>, bytes: Buffer): T {
  try {
    return schema.parse(JSON.parse(bytes.toString('utf8')));
  } catch (cause) {
    const what = "answered with something that is not OpenAI's media interface";
    throw providerError('overloaded', id, what, { cause, retryable: false });
  }
}
