import { RunError } from '../../../shared/base/run-error.ts';
import type { FileView } from '../../../shared/contract/files.ts';
import type { FileAbout, FileBody, Files, FilesPage, FilesQuery } from '../files/files.ts';
import { partsOf, unreachable } from './answers.ts';
import { type Asked, at, type Body, type Link } from './link.ts';
import { watched } from './sse.ts';
import { forgetting } from './threads.ts';

/** 200 MB over a slow line. */
const uploadMs = 30 * 60_000;

/** The files over HTTP. */
export class RemoteFiles implements Files {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** A body that comes in pieces is sent as it comes where the runtime can do that; a browser collects it first. */
  async upload(body: FileBody, about: FileAbout | (() => FileAbout)): Promise<FileView> {
    const isStream = isPieces(body) && typeof about !== 'function' && canStream();
    const form = isStream ? multipartOf(body, about) : await formOf(body, about);
    // What was read once cannot be sent again.
    const asked = { method: 'POST', path: '/v1/files', body: form, answerMs: uploadMs } as const;
    return await this.#link.json(isStream ? { ...asked, repeatMs: 0 } : asked);
  }

  async get(fileId: string): Promise<FileView> {
    return await this.#link.json({ path: at`/v1/files/${fileId}` });
  }

  async list(query: FilesQuery = {}): Promise<FilesPage> {
    const { data, has_more } = await this.#link.json<FilesPage>({ path: '/v1/files', query: { ...query } });
    return { data, has_more };
  }

  async *content(fileId: string): AsyncGenerator<Uint8Array, void, undefined> {
    yield* bytesOf(this.#link, { path: at`/v1/files/${fileId}/content` });
  }

  async remove(fileId: string): Promise<void> {
    await forgetting(this.#link, at`/v1/files/${fileId}`);
  }
}

/** The bytes of an answer that is no JSON, as they come. */
export async function* bytesOf(
  link: Link,
  asked: Pick<Asked, 'path' | 'query'>,
): AsyncGenerator<Uint8Array, void, undefined> {
  using answer = await link.open({ ...asked, headers: { accept: '*/*' } });
  try {
    yield* watched(answer, partsOf(answer.response));
  } catch (error) {
    throw error instanceof RunError ? error : unreachable(`${answer.question.url} broke off`, error);
  }
}

function isPieces(body: FileBody): body is AsyncIterable<Uint8Array> {
  return typeof body === 'object' && !(body instanceof Blob) && Symbol.asyncIterator in body;
}

type Part = NonNullable<ConstructorParameters<typeof Blob>[0]>[number];

async function formOf(body: FileBody, about: FileAbout | (() => FileAbout)): Promise<Body> {
  const parts: Part[] = [];
  if (isPieces(body)) for await (const part of body) parts.push(part);
  else parts.push(body);
  const said = typeof about === 'function' ? about() : about;
  const form = new FormData();
  for (const [name, value] of fieldsOf(said)) form.set(name, value);
  form.set('file', new Blob(parts, { type: said.mediaType ?? 'application/octet-stream' }), said.filename);
  return { form };
}

function fieldsOf({ purpose, expiresAfterS }: FileAbout): readonly (readonly [string, string])[] {
  const expires = [
    ['expires_after[anchor]', 'created_at'],
    ['expires_after[seconds]', String(expiresAfterS)],
  ] as const;
  return [['purpose', purpose], ...(expiresAfterS === undefined ? [] : expires)];
}

/** A form whose file is sent as it comes. */
function multipartOf(body: AsyncIterable<Uint8Array>, about: FileAbout): Body {
  const boundary = `millrace-${crypto.getRandomValues(new Uint32Array(4)).join('')}`;
  const encoder = new TextEncoder();
  const fields = fieldsOf(about).map(
    ([name, value]) => `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const disposition = `form-data; name="file"; filename="${escapedName(about.filename)}"`;
  const head = `--${boundary}\r\ncontent-disposition: ${disposition}\r\ncontent-type: ${escapedName(about.mediaType ?? 'application/octet-stream')}\r\n\r\n`;
  const written = async function* () {
    yield encoder.encode([...fields, head].join(''));
    yield* body;
    yield encoder.encode(`\r\n--${boundary}--\r\n`);
  };
  return { stream: streamOf(written()), type: `multipart/form-data; boundary=${boundary}` };
}

function streamOf(parts: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void (await parts.return()),
  });
}

/** As forms of browsers escape the names of files. */
function escapedName(name: string): string {
  return name
    .toWellFormed()
    .replaceAll(/[\r\n"]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

/** Can this runtime send a body as it comes? One that cannot takes the stream for a text. */
function canStream(): boolean {
  let isAsked = false;
  const init = {
    method: 'POST',
    body: new ReadableStream(),
    get duplex() {
      isAsked = true;
      return 'half' as const;
    },
  };
  return !new Request('https://localhost', init).headers.has('content-type') && isAsked;
}
