import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/shared/base/clock.ts';
import { keysFor } from '../../src/shared/state/keys.ts';
import { redisThreads } from '../../src/shared/state/thread/threads.ts';
import { checkRun, eventsOf, observe } from '../support/check-run.ts';
import { Fleet } from '../support/fleet.ts';
import { chat, startRawProvider } from '../support/raw-provider.ts';
import { testRedis, until } from '../support/redis.ts';

const tools = `import { defineTool } from 'millrace/worker';
import { z } from 'zod';
const inputSchema = z.object({ n: z.number() });
export const readPage = defineTool({
  name: 'read_page', description: 'Reads a page.', inputSchema, effect: 'read', trust: 'web-search',
  execute: ({ n }) => 'page ' + n + ' ' + 'x'.repeat(3_000),
});
export const sign = defineTool({
  name: 'sign', description: 'Signs.', inputSchema, effect: 'once', needsApproval: true, execute: () => 'signed',
});
`;

const agent = `model: big
instructions: Read carefully.
modelTierMap: { fast: small }
compaction: { keepTurns: 2 }
postRun: { title: false }
tools: [read_page, sign]
limits: { maxSteps: 50 }
`;

interface WireMessage {
  readonly role: string;
  readonly content: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

function unpaired(messages: readonly WireMessage[]): string[] {
  const calls = messages.flatMap(({ tool_calls: made = [] }) => made.map(({ id }) => id));
  const results = messages.flatMap(({ tool_call_id: id }) => (id === undefined ? [] : [id]));
  return [...calls.filter((id) => !results.includes(id)), ...results.filter((id) => !calls.includes(id))];
}

test('a run that was compacted, waited for a person and went on on another worker has one summary, in its envelope', async () => {
  let asked = 0;
  let summaries = 0;
  const provider = await startRawProvider(
    chat(({ model }) => {
      if (model === 'small') return { text: `Summary number ${++summaries}.` };
      asked++;
      const name = asked === 8 ? 'sign' : 'read_page';
      return asked <= 16 ? { toolCalls: [{ id: `call_${asked}`, name, args: { n: asked } }] } : { text: 'All read.' };
    }),
  );
  onTestFinished(() => provider[Symbol.asyncDispose]());
  const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'tools'));
  writeFileSync(join(folder, 'reader.yaml'), agent);
  writeFileSync(join(folder, 'tools/tools.ts'), tools);
  const providers = join(folder, 'providers.yml.txt');
  const models = '[{ model: big, contextWindow: 16384 }]';
  writeFileSync(providers, `- { id: openai, kind: openai, baseUrl: "${provider.url}", models: ${models} }\n`);
  const fleet = new Fleet({ env: { MILLRACE_AGENTS: folder, MILLRACE_PROVIDERS: providers } });
  onTestFinished(() => fleet.dispose());
  const first = await fleet.startWorker();
  const run = await fleet.mill.enqueue({ agent: 'reader', input: 'Read all pages and sign.', thread: 'reading' });
  await until('the run waits', async () => (await run.get()).status === 'suspended');
  const before = summaries;
  expect(before).toBeGreaterThan(0);
  first.signal('SIGKILL');
  await first.exited;
  await fleet.startWorker();
  await run.approve();
  expect(await run.result()).toMatchObject({ status: 'completed', text: 'All read.' });
  expect(summaries).toBeGreaterThan(before);

  const asking = provider.requests.map(({ body }) => body as { model: string; messages: WireMessage[] });
  const steps = asking.filter(({ model }) => model === 'big').map(({ messages }) => messages);
  expect(steps).toHaveLength(17);
  const isSummary = ({ content }: WireMessage) => content?.startsWith?.('[Summary of the earlier part');
  for (const messages of steps) {
    expect(unpaired(messages)).toEqual([]);
    expect(messages.filter(isSummary).length).toBeLessThanOrEqual(1);
    expect(messages[0]).toEqual({ role: 'system', content: 'Read carefully.' });
  }
  const compacted = steps.filter((messages) => messages.some(isSummary));
  const marker = /<<<UNTRUSTED_CONTENT trust="derived-untrusted" tool="summary"/;
  for (const messages of compacted) {
    expect(messages.slice(0, 3).map(({ role }) => role)).toEqual(['system', 'system', 'user']);
    expect(messages[1]).toEqual(compacted[0]?.[1]);
    expect(messages[2]?.content).toMatch(marker);
    expect(messages[2]?.content).toContain('Read all pages and sign.');
  }
  const folding = asking.filter(({ model }) => model === 'small').at(before);
  expect(JSON.stringify(folding?.messages)).toContain(`Summary number ${before}.`);

  const observed = await observe(fleet.mill, run.runId, () => fleet.executions);
  checkRun(observed);
  const events = eventsOf(observed, 'context.compacted');
  expect(events).toHaveLength(summaries);
  for (const event of events) {
    expect(event).toMatchObject({ source: 'auto-trigger', hooksFiredCount: 0 });
    expect(event.afterTokens).toBeLessThan(event.beforeTokens);
  }
  expect(observed.view.usage?.byModel['small']?.attemptCount).toBe(summaries);

  // What a summary stands for is in the thread all the same.
  const redis = await testRedis('work', fleet.redisUrl);
  const place = { redis, keys: keysFor(fleet.prefix), cluster: false, clock: systemClock };
  const { entries } = await redisThreads(place, async () => {}).read('default', 'reading', { limit: 1_000 });
  const results = entries.flatMap(({ entry }) =>
    entry.t === 'message' && entry.message.role === 'tool' ? [entry.message] : [],
  );
  expect(results.map(({ toolCallId }) => toolCallId)).toEqual(
    Array.from({ length: 16 }, (_, index) => `call_${index + 1}`),
  );

  // The next turn begins with the summary, and does not pay for one again.
  const paid = summaries;
  const next = await fleet.mill.enqueue({ agent: 'reader', input: 'What did you read?', thread: 'reading' });
  expect((await next.result()).text).toBe('All read.');
  expect(summaries).toBe(paid);
  const again = (provider.requests.at(-1)?.body as { messages: WireMessage[] } | undefined)?.messages ?? [];
  expect(again.filter(isSummary)).toHaveLength(1);
  expect(again[2]?.content).toContain(`Summary number ${paid}.`);
  expect(again.length).toBeLessThan(15);
  expect(unpaired(again)).toEqual([]);
  expect(again.slice(-2).map(({ content }) => content)).toEqual(['All read.', 'What did you read?']);
});
