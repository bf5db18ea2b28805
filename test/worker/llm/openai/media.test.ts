import { expect, onTestFinished, test } from 'vitest';
import { createOpenAiMedia } from '../../../../src/worker/llm/openai/media.ts';
import type { MediaCall } from '../../../../src/worker/llm/provider.ts';
import { body, reset, startRawProvider, status, type Reply } from '../../../support/raw-provider.ts';

const call: MediaCall = {
  model: 'gpt-image-1',
  requestId: 'R:step:1',
  idempotencyKey: 'R:step:1',
  modality: 'image',
  prompt: 'A whale.',
  count: 1,
};
const film: MediaCall = { ...call, model: 'sora-2', modality: 'video', seconds: 8, size: '1280x720' };
const key = 'sk-a-key-to-be-hidden';

async function makeMedia(...replies: readonly Reply[]) {
  const server = await startRawProvider(replies);
  onTestFinished(() => server[Symbol.asyncDispose]());
  const media = createOpenAiMedia({
    id: 'studio',
    baseUrl: server.url,
    apiKey: key,
    startTimeoutMs: 1_000,
    idleTimeoutMs: 1_000,
  });
  const stop = new AbortController();
  return {
    server,
    stop,
    generate: (more: MediaCall = call) => media.generateMedia(more, stop.signal),
    poll: (jobId: string) => media.pollMedia?.(jobId, stop.signal),
  };
}

function json(value: unknown): Reply {
  return body('application/json', JSON.stringify(value));
}

test('images come with the answer, each with the type that the server names', async () => {
  const pictures = ['one', 'two'].map((text) => ({ b64_json: Buffer.from(text).toString('base64') }));
  const { server, generate } = await makeMedia(json({ created: 1, data: pictures, output_format: 'webp' }));
  expect(await generate({ ...call, count: 2, size: '1024x1024' })).toEqual({
    media: [
      { bytes: Buffer.from('one'), mediaType: 'image/webp' },
      { bytes: Buffer.from('two'), mediaType: 'image/webp' },
    ],
  });
  const [request] = server.requests;
  expect(request?.path).toBe('/v1/images/generations');
  expect(request?.body).toEqual({ model: 'gpt-image-1', prompt: 'A whale.', n: 2, size: '1024x1024' });
  expect(request?.headers).toMatchObject({
    authorization: `Bearer ${key}`,
    'idempotency-key': 'R:step:1',
    'x-client-request-id': 'R:step:1',
  });
});

test('older models are asked for the image itself; a link in its place is refused', async () => {
  const { server, generate } = await makeMedia(json({ data: [{ url: 'https://example.com/1.png' }] }));
  await expect(generate({ ...call, model: 'dall-e-3' })).rejects.toMatchObject({ kind: 'bad_request' });
  expect(server.requests[0]?.body).toMatchObject({ response_format: 'b64_json' });
});

test('a video is a job: given once, asked for, and fetched when it is done', async () => {
  const { server, generate, poll } = await makeMedia(
    json({ id: 'video_1', status: 'queued' }),
    json({ id: 'video_1', status: 'in_progress', error: null }),
    json({ id: 'video_1', status: 'completed', error: null }),
    body('video/mp4', 'a film'),
  );
  expect(await generate(film)).toEqual({ jobId: 'video_1' });
  expect(await poll('video_1')).toBeUndefined();
  expect(await poll('video_1')).toEqual([{ bytes: Buffer.from('a film'), mediaType: 'video/mp4' }]);
  expect(server.requests.map(({ path }) => path)).toEqual([
    '/v1/videos',
    '/v1/videos/video_1',
    '/v1/videos/video_1',
    '/v1/videos/video_1/content',
  ]);
  expect(server.requests[0]?.body).toEqual({ model: 'sora-2', prompt: 'A whale.', seconds: '8', size: '1280x720' });
});

test('a job that failed reports why', async () => {
  const error = { code: 'content_policy_violation', message: 'Not this.' };
  const { poll } = await makeMedia(json({ id: 'video_1', status: 'failed', error }));
  await expect(poll('video_1')).rejects.toMatchObject({
    kind: 'content_filter',
    message: expect.stringContaining('Not this') as string,
  });
});

const faults: readonly [what: string, reply: Reply, kind: string, retryable: boolean][] = [
  ['a refusal', status(400, { message: `bad request with ${key}` }), 'bad_request', false],
  ['refused credentials', status(401), 'auth', false],
  ['a limit', status(429), 'rate_limit', true],
  ['a server that is away', status(503), 'overloaded', true],
  ['a connection that breaks', reset(), 'transport', true],
  ['a web page', body('text/html', '<html>'), 'overloaded', false],
  ['another form', json({ pictures: [] }), 'overloaded', false],
];

test.each(faults)(
  '%s is reported as what it is, after one request and without the key',
  async (_, reply, kind, retryable) => {
    const { server, generate } = await makeMedia(reply);
    const error = await generate().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'LlmError', kind, retryable, provider: 'studio' });
    expect(String(error)).not.toContain(key);
    expect(server.requests).toHaveLength(1);
  },
);

test('what the interface cannot make is refused without a request', async () => {
  const { server, generate } = await makeMedia(json({}));
  await expect(generate({ ...call, modality: 'audio' })).rejects.toMatchObject({ kind: 'bad_request' });
  await expect(generate({ ...film, count: 2 })).rejects.toMatchObject({ kind: 'bad_request' });
  expect(server.requests).toEqual([]);
});

test('a call that is cancelled ends at once, as cancelled', async () => {
  const { server, stop, generate } = await makeMedia(() => stop.abort());
  await expect(generate()).rejects.toMatchObject({ kind: 'cancelled' });
  expect(server.requests).toHaveLength(1);
});
