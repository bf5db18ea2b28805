import { connect } from 'node:net';
import { join } from 'node:path';
import { inject, onTestFinished } from 'vitest';
import { Child } from '../../support/child.ts';
import { corelessSince } from '../../support/coreless.ts';
import { memoryMb } from '../../support/memory.ts';
import { testPrefix } from '../../support/redis.ts';

const entry = join(import.meta.dirname, '../../../src/producer/main.ts');
const ndjson = 'application/x-ndjson';
const bodyBytes = 64 * 1024 * 1024 - 1_024;

/** A body that costs memory out of proportion where it is read carelessly, and what has to come of it. */
export interface GreedyBody {
  readonly name: string;
  readonly type: string;
  /** Sent over and over until the body is full. */
  readonly piece: string;
  readonly times: number;
  readonly status: number;
  /** Found in the answer. */
  readonly answer: string;
}

const fill = (piece: string) => ({ piece, times: Math.floor(bodyBytes / piece.length) });
const run = (input: string) => `${JSON.stringify({ agent: 'support', input })}\n`;

export const greedyBodies: readonly GreedyBody[] = [
  { name: 'empty objects', type: ndjson, ...fill('{}\n'), status: 400, answer: 'at most 10000 runs' },
  { name: 'one line', type: ndjson, ...fill('x'), status: 200, answer: 'payload_too_large' },
  { name: 'empty lines', type: ndjson, ...fill('\n'), status: 400, answer: 'empty' },
  { name: 'open brackets', type: 'application/json', ...fill('['), status: 400, answer: 'too_deep' },
  { name: 'valid runs', type: ndjson, piece: run('x'.repeat(6_000)), times: 10_000, status: 200, answer: 'runId' },
];

export interface SmallProducer {
  readonly url: string;
  readonly pid: number;
  /** The most memory that it has had. */
  readonly peakMb: () => number;
}

/** A producer process with less heap than a careless reader needs, and the young generation of the image. */
export async function smallProducer(more: Record<string, string> = {}): Promise<SmallProducer> {
  const env = {
    ...more,
    REDIS_URL: inject('redisUrl'),
    MILLRACE_PREFIX: testPrefix(),
    PORT: '0',
    MILLRACE_AGENTS: '/nonexistent',
    NODE_OPTIONS: '--max-old-space-size=256 --max-semi-space-size=16',
  };
  const { child, ready } = await Child.start('producer', entry, env);
  onTestFinished(() => child.kill());
  return { url: String(ready['url']), pid: child.pid, peakMb: () => memoryMb(child.pid, 'VmHWM') ?? NaN };
}

/** Sends a body as fast as the producer reads it, over a socket of its own. Answers status and text. */
export async function sendGreedy(url: string, { type, piece, times }: GreedyBody) {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setMaxListeners(0);
  onTestFinished(() => void socket.destroy());
  const { promise, resolve, reject } = Promise.withResolvers<{ readonly status: number; readonly text: string }>();
  const answer = { text: '' };
  socket.setEncoding('utf8').on('data', (data) => (answer.text += String(data)));
  socket.on('error', reject).on('close', () => resolve({ status: Number(answer.text.slice(9, 12)), ...answer }));
  const head = [
    'POST /v1/runs/bulk HTTP/1.1',
    `host: ${hostname}:${port}`,
    `content-type: ${type}`,
    `content-length: ${piece.length * times}`,
    'connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  const perWrite = Math.min(times, Math.ceil(65_536 / piece.length));
  const block = piece.repeat(perWrite);
  for (let left = times; left > 0 && answer.text === ''; left -= perWrite) {
    const isLast = left < perWrite;
    if (socket.write(isLast ? piece.repeat(left) : block)) continue;
    const { promise: go, resolve: proceed } = Promise.withResolvers<void>();
    socket.once('drain', proceed).once('close', proceed);
    await go;
  }
  return await promise;
}

/** Answers longer than any promise, but not for ever. */
const lostMs = 60_000;

/**
 * Asks for `/healthz` again and again until it is stopped. Rejects as soon as one answer takes too long. The time in which this
 * process or the producer was ready to run and had no core does not count: other processes of the machine took that.
 */
export async function keepAsking({ url, pid }: SmallProducer, stop: AbortSignal, deadlineMs: number): Promise<number> {
  let answers = 0;
  while (!stop.aborted) {
    const askedAt = performance.now();
    const coreless = [process.pid, pid].map(corelessSince);
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(lostMs) });
    await response.text();
    // Both may have waited at the same time.
    const took = performance.now() - askedAt - Math.max(...coreless.map((msOf) => msOf()));
    if (took > deadlineMs) throw new Error(`/healthz took ${Math.round(took)} ms`);
    answers += 1;
  }
  return answers;
}
