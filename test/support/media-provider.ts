import { chat, startRawProvider, type RawProvider, type RawRequest, type Reply } from './raw-provider.ts';

/** A picture, as far as these tests care. */
export const pictureBytes = Buffer.from('89504e470d0a1a0a picture', 'latin1');
export const filmBytes = Buffer.from('....ftypisom a film', 'latin1');

export interface MediaProvider extends AsyncDisposable {
  readonly url: string;
  readonly requests: readonly RawRequest[];
  /** Requests of this method-free path, in order. */
  to(path: string): readonly RawRequest[];
  /** What its pictures are. Default {@link pictureBytes}. */
  picture: Buffer;
  /** How often a job answers that it is not done, counted over all jobs. Default 1. */
  unfinishedPolls: number;
  /** Answers the next poll instead. */
  nextPoll: Reply | undefined;
}

/** A server with OpenAI's images and videos beside its chat. */
export async function startMediaProvider(): Promise<MediaProvider> {
  const answer: Reply = async (response, request) => {
    if (request.path.endsWith('/images/generations')) {
      const data = Array.from({ length: request.body.n ?? 1 }, () => ({
        b64_json: provider.picture.toString('base64'),
      }));
      return json(response, { created: 1, data, output_format: 'png' });
    }
    if (request.path.endsWith('/videos')) return json(response, { id: 'video_1', object: 'video', status: 'queued' });
    if (request.path.endsWith('/videos/video_1/content')) {
      response.writeHead(200, { 'content-type': 'video/mp4' });
      response.end(filmBytes);
      return;
    }
    if (request.path.endsWith('/videos/video_1')) {
      const special = provider.nextPoll;
      provider.nextPoll = undefined;
      if (special) return await special(response, request);
      const status = provider.unfinishedPolls-- > 0 ? 'in_progress' : 'completed';
      return json(response, { id: 'video_1', object: 'video', status });
    }
    return await chat(() => ({ text: 'Hello.' }))(response, request);
  };
  const server: RawProvider = await startRawProvider(answer);
  const provider: MediaProvider = {
    url: server.url,
    requests: server.requests,
    picture: pictureBytes,
    unfinishedPolls: 1,
    nextPoll: undefined,
    to: (path) => server.requests.filter((request) => request.path === `/v1${path}`),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
  return provider;
}

function json(response: Parameters<Reply>[0], body: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
