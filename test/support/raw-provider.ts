import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request as the fake server saw it. `closedEarly` turns true when the client hangs up before the answer ended. */
export interface RawRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
  readonly body: any;
  readonly atMs: number;
  closedEarly: boolean;
}

/** Answers one request. Nothing is sent but what it sends: faults are written as they would go over the wire. */
export type Reply = (response: ServerResponse, request: RawRequest) => void | Promise<void>;

export interface RawProvider extends AsyncDisposable {
  /** Base URL with `/v1`, for `OPENAI_BASE_URL`. */
  readonly url: string;
  readonly requests: readonly RawRequest[];
  /** What answers from now on: one reply, or a list of which the last one stays. */
  answer(reply: Reply | readonly Reply[]): void;
}

/** An OpenAI-compatible server on a free port that misbehaves as its test says. A `catalogue` answers for its models as well. */
export async function startRawProvider(
  reply: Reply | readonly Reply[] = chat(() => ({ text: 'Hello.' })),
  { catalogue = false }: { readonly catalogue?: boolean } = {},
): Promise<RawProvider> {
  let queue: Reply[] = [reply].flat();
  const requests: RawRequest[] = [];
  const server = createServer((incoming, response) => {
    void serve(incoming, response);
  });
  const serve = async (incoming: IncomingMessage, response: ServerResponse) => {
    // Workers ask for the list of models to report whether their provider is there: no model call, so no test counts it.
    if (!catalogue && incoming.method === 'GET' && incoming.url?.endsWith('/models')) {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
      return;
    }
    const request = await read(incoming);
    requests.push(request);
    response.on('close', () => (request.closedEarly = !response.writableFinished));
    const next = queue.length > 1 ? queue.shift() : queue[0];
    await next?.(response, request);
  };
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    answer: (next) => (queue = [next].flat()),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function read(incoming: IncomingMessage): Promise<RawRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  const body: unknown = text === '' ? undefined : JSON.parse(text);
  return { path: incoming.url ?? '', headers: incoming.headers, body, atMs: performance.now(), closedEarly: false };
}

/** What a well-behaved model says. */
export interface ChatReply {
  readonly reasoning?: string;
  /** The proof of it, which the server wants back. */
  readonly reasoningDetails?: readonly unknown[];
  /** A text is cut into words; a list gives the chunks. */
  readonly text?: string | readonly string[];
  readonly toolCalls?: readonly { readonly id?: string; readonly name: string; readonly args: unknown }[];
  readonly finishReason?: string;
  /** As on the wire. Sent only when the request asks for usage; null: never. */
  readonly usage?: Readonly<Record<string, unknown>> | null;
  /** Before every chunk. */
  readonly delayMs?: number;
}

/** Streams what the function says to the request, as OpenAI would: usage in a chunk of its own, `[DONE]` at the end. */
export function chat(say: (body: RawRequest['body'], request: RawRequest) => ChatReply): Reply {
  return async (response, request) => {
    const reply = say(request.body, request);
    openStream(response);
    for (const chunk of chunksOf(reply, Boolean(request.body?.stream_options?.include_usage))) {
      if (reply.delayMs) await new Promise((resolve) => setTimeout(resolve, reply.delayMs));
      if (response.destroyed) return;
      response.write(data(chunk));
    }
    response.end('data: [DONE]\n\n');
  };
}

function* chunksOf(reply: ChatReply, withUsage: boolean): Generator {
  const calls = reply.toolCalls ?? [];
  yield delta({ role: 'assistant', content: '' });
  for (const piece of words(reply.reasoning)) yield delta({ reasoning_content: piece });
  if (reply.reasoningDetails) yield delta({ reasoning_details: reply.reasoningDetails });
  for (const piece of typeof reply.text === 'object' ? reply.text : words(reply.text)) yield delta({ content: piece });
  for (const [index, call] of calls.entries()) {
    const args = typeof call.args === 'string' ? call.args : JSON.stringify(call.args);
    yield delta({
      tool_calls: [
        { index, id: call.id ?? `call_${index + 1}`, type: 'function', function: { name: call.name, arguments: '' } },
      ],
    });
    for (const piece of args.match(/.{1,12}/gs) ?? [])
      yield delta({ tool_calls: [{ index, function: { arguments: piece } }] });
  }
  yield finish(reply.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop'));
  const usage =
    reply.usage === undefined ? { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 } : reply.usage;
  if (withUsage && usage) yield { ...base, choices: [], usage };
}

const base = { id: 'chatcmpl-raw', object: 'chat.completion.chunk', created: 1, model: 'raw' };

function words(text = ''): readonly string[] {
  return text.match(/\s*\S+|\s+/g) ?? [];
}

/** A chunk with this delta. */
export function delta(fields: Readonly<Record<string, unknown>>): unknown {
  return { ...base, choices: [{ index: 0, delta: fields, finish_reason: null }] };
}

/** The chunk that ends an answer. */
export function finish(reason: string): unknown {
  return { ...base, choices: [{ index: 0, delta: {}, finish_reason: reason }] };
}

/** A value as a server-sent event. */
export function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function openStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
}

/** An HTTP error with OpenAI's body. */
export function status(
  code: number,
  error: Readonly<Record<string, unknown>> = {},
  headers: Readonly<Record<string, string>> = {},
): Reply {
  return (response) => {
    response.writeHead(code, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify({ error: { message: `status ${code}`, ...error } }));
  };
}

/** One body with its content type, for instance a web page or a completion that did not stream. */
export function body(contentType: string, text: string): Reply {
  return (response) => {
    response.writeHead(200, { 'content-type': contentType });
    response.end(text);
  };
}

/** A stream of these pieces, written one by one; then the connection is closed in good order. */
export function stream(...pieces: readonly (string | Uint8Array)[]): Reply {
  return async (response) => {
    openStream(response);
    for (const piece of pieces) await written(response, piece);
    response.end();
  };
}

/** The pieces, then a reset of the connection. */
export function reset(...pieces: readonly string[]): Reply {
  return async (response) => {
    if (pieces.length > 0) openStream(response);
    for (const piece of pieces) await written(response, piece);
    response.socket?.resetAndDestroy();
  };
}

/** The pieces, then nothing, while the connection stays open. Without pieces not even headers come. */
export function stall(...pieces: readonly string[]): Reply {
  return async (response) => {
    if (pieces.length > 0) openStream(response);
    for (const piece of pieces) await written(response, piece);
  };
}

/** A comment every `everyMs` for `times`, between the pieces before and after. */
export function keepAlive(before: string, times: number, everyMs: number, after: string): Reply {
  return async (response) => {
    openStream(response);
    await written(response, before);
    for (let i = 0; i < times; i++) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      await written(response, ': keep-alive\n\n');
    }
    response.end(after);
  };
}

/** A line that does not end, until the client hangs up. */
export function endlessLine(): Reply {
  return async (response) => {
    openStream(response);
    response.write('data: {"x":"');
    while (!response.destroyed) await written(response, 'x'.repeat(64 * 1024));
  };
}

/** Writes and waits until the bytes have left, so that each piece travels alone. */
async function written(response: ServerResponse, piece: string | Uint8Array): Promise<void> {
  if (response.destroyed) return;
  await new Promise<void>((resolve) => {
    response.once('close', resolve);
    response.write(piece, () => {
      response.off('close', resolve);
      setImmediate(resolve);
    });
  });
}
