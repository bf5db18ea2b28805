import { maxLevels, depthOver, jsonOr } from '../../../shared/base/json.ts';
import { LlmError, providerError } from '../errors.ts';
import { brokenOff, errorFromBody } from './errors.ts';
import type { LlmAnswer } from '../provider.ts';
import { SseSplitter } from './sse.ts';
import { gathered, readBody, type StreamResponse } from './transport.ts';
import type { Watchdog } from '../watchdog.ts';
import type { Usage } from '../../../shared/contract/money.ts';

const sseLimits = { maxLineBytes: 1024 * 1024, maxBytes: 128 * 1024 * 1024 };
const maxJsonBytes = 10 * 1024 * 1024;
/** After the finish reason only the usage is missing: no reason to wait as long as for a token. */
const tailTimeoutMs = 5_000;

/** Any object on the wire may be an error instead. */
export interface WireObject {
  readonly error?: unknown;
}

/** Puts an answer together from what a server sends. */
export interface AnswerFold<Chunk extends WireObject> {
  /** The model reported why it stopped: what is still to come is only the usage. */
  readonly finished: boolean;
  /** Not even the usage is still to come. */
  readonly complete: boolean;
  /** What was used so far, as far as the provider reported. */
  readonly usage: Usage | undefined;
  chunk(chunk: Chunk): void;
  /** An answer that came in one piece, emitted as if it had streamed. */
  whole(answer: Chunk): void;
  answer(): LlmAnswer;
}

/** A response on its way into a fold. */
interface Reading<Chunk extends WireObject> {
  readonly response: StreamResponse;
  readonly fold: AnswerFold<Chunk>;
  readonly watchdog: Watchdog;
  /** Of the provider. */
  readonly id: string;
  readonly idleTimeoutMs: number;
}

/**
 * Reads a response into the fold, whether it streams or not. Returns once the answer has its finish reason; throws for
 * everything else: a web page, a stream that broke off, an error in the place of a chunk, more than fits the limits.
 */
export async function readAnswer<Chunk extends WireObject>(reading: Reading<Chunk>): Promise<void> {
  const { response, fold, id } = reading;
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/html')) {
    response.body.on('error', () => {}).destroy();
    throw providerError('transport', id, 'answered with a web page');
  }
  const broken = await (type.startsWith('application/json') ? readWhole(reading) : readStream(reading));
  // A connection that dies after the finish reason has taken nothing of the answer with it.
  if (fold.finished) return;
  if (broken) throw brokenOff(id, broken);
  throw providerError('transport', id, 'ended its answer without a finish reason');
}

/** Resolves with what broke the stream off, or undefined. */
async function readStream<Chunk extends WireObject>(reading: Reading<Chunk>) {
  const { response, fold, watchdog, id, idleTimeoutMs } = reading;
  let phase: 'start' | 'parts' | 'tail' | 'done' = 'start';
  const splitter = new SseSplitter(sseLimits, (payload) => {
    if (payload.startsWith('[DONE]')) phase = 'done';
    else if (payload !== '' && phase !== 'done') fold.chunk(parseChunk(payload, id) as Chunk);
  });
  const broken = await readBody(response.body, (bytes) => {
    if (phase === 'start') {
      phase = 'parts';
      watchdog.expect(idleTimeoutMs);
    } else {
      watchdog.seen();
    }
    const verdict = splitter.push(bytes);
    if (verdict !== 'ok') {
      const limit = verdict === 'line' ? sseLimits.maxLineBytes : sseLimits.maxBytes;
      throw new LlmError('transport', id, `a ${verdict} of provider ${id} is over ${limit} bytes`);
    }
    if (phase === 'parts' && fold.finished) {
      phase = 'tail';
      watchdog.expect(Math.min(tailTimeoutMs, idleTimeoutMs));
    }
    if (fold.complete) phase = 'done';
    return phase !== 'done';
  });
  if (!broken) splitter.end();
  return broken;
}

/** A server that does not stream: its whole answer comes out as parts all the same. */
async function readWhole<Chunk extends WireObject>(reading: Reading<Chunk>) {
  const { response, fold, watchdog, id, idleTimeoutMs } = reading;
  watchdog.expect(idleTimeoutMs);
  const { bytes, broken } = await gathered(response.body, (size) => {
    watchdog.seen();
    if (size <= maxJsonBytes) return true;
    throw new LlmError('transport', id, `the answer of provider ${id} is over ${maxJsonBytes} bytes`);
  });
  if (!broken) fold.whole(parseChunk(bytes.toString('utf8'), id) as Chunk);
  return broken;
}

/** Throws the error that the chunk has, or `transport` when it is not JSON. */
function parseChunk(json: string, provider: string): WireObject {
  // The one place where wire data is taken for a chunk: checking every chunk by a schema would cost more than reading it.
  const chunk = depthOver(json, maxLevels) ? undefined : (jsonOr(json) as WireObject | undefined);
  if (typeof chunk !== 'object' || chunk === null) {
    // Without the cause: it quotes the text, which belongs to the user.
    const what = `sent a chunk that is not a JSON object of at most ${maxLevels} levels`;
    throw providerError('transport', provider, what);
  }
  if (chunk.error) throw errorFromBody(provider, chunk.error);
  return chunk;
}
