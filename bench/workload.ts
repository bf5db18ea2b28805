/** The workload of every system: two model calls, one trivial tool, this many streamed text deltas. */
export const deltas = 200;
/** Pause between chunks in the paced form, in milliseconds. */
export const pacedDelayMs = 20;
export const model = 'gpt-5.2-mini';
export const toolName = 'lookup_order';

export const wireTool = {
  type: 'function',
  function: {
    name: toolName,
    description: 'Finds an order by its number.',
    parameters: { type: 'object', properties: { order: { type: 'string' } }, required: ['order'] },
  },
} as const;

export function lookup(order: string): { order: string; state: string } {
  return { order, state: 'shipped' };
}

/** A page of so many kilobytes, the same for the same name: words that do not repeat themselves much. */
export function pageOf(kilobytes: string): string {
  const words: string[] = [];
  let [state, size] = [7, 0];
  while (size < Number(kilobytes) * 1_000) {
    state = (state * 48_271) % 2_147_483_647;
    const word = state.toString(36);
    words.push(word);
    size += word.length + 1;
  }
  return words.join(' ');
}

export const input = 'Where is order 7?';
export const instructions = 'You answer questions about orders, briefly.';

/** What a system's process sends to its parent. */
export type FromSystem =
  | { type: 'ready' }
  | { type: 'cpu'; micros: number; rssBytes: number }
  | { type: 'done'; firstTokenMs: number[]; elapsedMs: number };

/** What the parent asks of a system's process. */
export type ToSystem = { type: 'cpu' } | { type: 'run'; runs: number; concurrency: number };

/** Settings that every system's process gets in its environment. */
export function systemEnv(): { redisUrl: string; baseUrl: string; prefix: string; concurrency: number } {
  const { BENCH_REDIS_URL = '', BENCH_BASE_URL = '', BENCH_PREFIX = '', BENCH_CONCURRENCY = '50' } = process.env;
  return {
    redisUrl: BENCH_REDIS_URL,
    baseUrl: BENCH_BASE_URL,
    prefix: BENCH_PREFIX,
    concurrency: Number(BENCH_CONCURRENCY),
  };
}

/** Settings of a Millrace worker beyond those, as JSON in its environment. */
export function workerEnv(): Record<string, string> {
  return JSON.parse(process.env['BENCH_WORKER_ENV'] ?? '{}') as Record<string, string>;
}

/** Answers the parent's questions about this process's CPU time. */
export function serveParent(onRun?: (runs: number, concurrency: number) => Promise<FromSystem>): void {
  process.on('message', (message: ToSystem) => {
    if (message.type === 'cpu') {
      const { user, system } = process.cpuUsage();
      process.send?.({ type: 'cpu', micros: user + system, rssBytes: process.memoryUsage.rss() } satisfies FromSystem);
    } else if (onRun) {
      onRun(message.runs, message.concurrency).then((answer) => process.send?.(answer), fail);
    }
  });
  process.on('disconnect', () => process.exit(0));
  process.send?.({ type: 'ready' } satisfies FromSystem);
}

function fail(error: unknown): never {
  process.stderr.write(`${String(error)}\n`);
  process.exit(1);
}
