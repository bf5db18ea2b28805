import OpenAI from 'openai';
import { serveParent, systemEnv } from '../workload.ts';
import { openaiTurn } from './openai-turn.ts';

// The plain `openai` client loop in one process: no queue, no Redis, nothing durable.

const client = new OpenAI({ baseURL: systemEnv().baseUrl, apiKey: 'bench' });

async function once(): Promise<number> {
  const started = performance.now();
  let first = 0;
  await openaiTurn(client, { onToken: () => (first ||= performance.now() - started) });
  return first;
}

serveParent(async (runs, concurrency) => {
  const firstTokenMs: number[] = [];
  const started = performance.now();
  let left = runs;
  const lane = async () => {
    while (left-- > 0) firstTokenMs.push(await once());
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return { type: 'done', firstTokenMs, elapsedMs: performance.now() - started };
});
