// A conversation of several runs: the second message knows the first one, the third interrupts the answer to the second.
// Needs a Redis, nothing else: `REDIS_URL=redis://127.0.0.1:6379 npm run example examples/threads.ts`. The worker is in
// this process and its model only pretends.

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Millrace } from 'millrace';
import { defineAgent, startWorker, type LlmProvider } from 'millrace/worker';

const redis = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
const prefix = 'example-threads';

/** Says how many messages it sees, and comes to no end where it is asked for everything. */
const pretending: LlmProvider = {
  id: 'pretending',
  capabilities: { tools: false, reasoning: false },
  async generate({ messages }, onPart, signal) {
    const asked = messages.findLast((message) => message.role === 'user')?.content ?? '';
    while (asked.includes('everything')) {
      onPart({ type: 'text', delta: 'There is more to say. ' });
      await pause(100, undefined, { signal });
    }
    const text = `I see ${messages.filter(({ role }) => role !== 'system').length} messages.`;
    onPart({ type: 'text', delta: text });
    return {
      message: { role: 'assistant', parts: [{ type: 'text', text }] },
      finishReason: 'stop',
      incompleteToolCalls: [],
    };
  },
};

const guide = defineAgent({ id: 'guide', model: 'any' });
const thread = `visit-${randomUUID()}`;

await using mill = new Millrace({ redis, prefix });
const worker = await startWorker({ redis, prefix, agents: [guide], provider: pretending });
try {
  const first = await mill.enqueue({ agent: 'guide', input: 'Where are we?', thread });
  console.log(`first: ${(await first.result()).text}`);

  const second = await mill.enqueue({ agent: 'guide', input: 'I want to know everything.', thread });
  for await (const event of second.events()) {
    if (event.type !== 'text.delta') continue;
    const third = await mill.enqueue({ agent: 'guide', input: 'In short?', thread, onBusy: 'interrupt' });
    console.log(`second: ${(await second.result()).status}`);
    console.log(`third: ${(await third.result()).text}`);
    break;
  }

  const { messages } = await mill.threads.messages(thread);
  for (const item of messages) if (item.kind === 'message') console.log(`${item.role}> ${item.text}`);
  await mill.threads.delete(thread);
} finally {
  await worker.stop(1_000);
}
