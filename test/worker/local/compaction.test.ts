import { expect, test } from 'vitest';
import { z } from 'zod';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import type { AgentHandle } from '../../../src/worker/local/agent-handle.ts';
import type { LlmProvider, LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createScriptedProvider } from '../../../src/worker/llm/backends/scripted.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import type { CompactionAnswer } from '../../../src/worker/turn/compaction/policy.ts';
import { isSummary } from '../../../src/shared/contract/thread/summary-message.ts';

interface WorldOptions {
  readonly agent?: Partial<AgentSource>;
  readonly provider?: Partial<LlmProvider>;
  readonly steps?: number;
  /** Called by the tool, with the number of the page. */
  readonly onPage?: (n: number, handle: AgentHandle) => void | Promise<void>;
}

/** An agent in this process that reads so many pages of 3 KB; a model that is asked without tools writes a summary. */
function world({ agent = {}, provider = {}, steps = 12, onPage }: WorldOptions = {}) {
  const requests: LlmRequest[] = [];
  const page = defineTool({
    name: 'read_page',
    description: 'Reads a page.',
    inputSchema: z.object({ n: z.number() }),
    effect: 'read',
    async execute({ n }) {
      await onPage?.(n, handle);
      return `page ${n} ${'x'.repeat(3_000)}`;
    },
  });
  let asked = 0;
  const scripted = createScriptedProvider((request) => {
    requests.push(request);
    if (!request.tools) return { text: 'What was read so far.' };
    asked++;
    return asked <= steps ? { toolCalls: [{ name: 'read_page', args: { n: asked } }] } : { text: 'done' };
  });
  const limits = { maxSteps: 100, maxLlmCalls: 100 };
  const definition = defineAgent({ id: 'reader', model: 'big', tools: [page], limits, ...agent });
  const handle = createAgentWith(definition, { provider: { ...scripted, ...provider }, env: {} });
  return {
    handle,
    requests,
    summaries: () => requests.filter(({ tools }) => !tools),
    run: async () => {
      const events: RunEvent[] = [];
      const stream = handle.stream('Read.');
      for await (const event of stream) events.push(event);
      const compacted = events.filter((event) => event.type === 'context.compacted');
      return { events, compacted, result: await stream.result };
    },
  };
}

const compaction = { contextWindow: 16_384, keepTurns: 2 };

test.each([
  ['the model that compaction names', { compaction: { ...compaction, summarizer: 'writer' } }, 'writer'],
  ['the fast tier', { compaction, modelTierMap: { fast: 'quick' } }, 'quick'],
  ["the agent's own model", { compaction }, 'big'],
])('summaries are written by %s, and billed under it', async (_, agent, model) => {
  const { run, summaries } = world({ agent });
  const { result, compacted } = await run();
  expect(result).toMatchObject({ status: 'completed', text: 'done' });
  expect(compacted.length).toBeGreaterThan(0);
  expect(new Set(summaries().map((request) => request.model))).toEqual(new Set([model]));
  const { byModel = {} } = result.usage ?? {};
  expect(byModel[model]?.attemptCount).toBe(summaries().length + (model === 'big' ? 13 : 0));
});

test('the window of a model that its provider states goes before the window that the agent states', async () => {
  const wide = world({ agent: { compaction }, provider: { contextWindowOf: () => 1_000_000 } });
  expect((await wide.run()).compacted).toEqual([]);
  const narrow = world({
    agent: { compaction: { ...compaction, contextWindow: 1_000_000 } },
    provider: { contextWindowOf: (model) => (model === 'big' ? 16_384 : undefined) },
  });
  expect((await narrow.run()).compacted.length).toBeGreaterThan(0);
});

test('without a known window 128,000 tokens are assumed', async () => {
  const { run } = world({ agent: { compaction: { keepTurns: 2 } } });
  expect((await run()).compacted).toEqual([]);
});

test('a model for summaries without a provider is a problem of the agent, reported at the start', () => {
  const definition = defineAgent({
    id: 'reader',
    model: 'm',
    compaction: { summarizer: { provider: 'gone', model: 'x' } },
  });
  const env = { OPENAI_API_KEY: 'sk-none', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' };
  expect(() => createAgentWith(definition, { env })).toThrow(
    'agent reader: compaction.summarizer: no provider serves model x of provider gone',
  );
});

test('a run about secrets is not summarised', async () => {
  const { run, summaries } = world({ agent: { compaction, sensitivity: 'secret' } });
  const { compacted, result } = await run();
  expect([compacted, summaries(), result.status]).toEqual([[], [], 'completed']);
});

test('hooks of an agent repeat what a summary may have lost', async () => {
  const { run, requests } = world({ agent: { compaction, postCompactionHooks: [() => 'Answer in French.'] } });
  const { compacted } = await run();
  expect(compacted[0]).toMatchObject({ hooksFiredCount: 1 });
  const ends = requests.map(({ messages }) => messages.at(-1)).filter((message) => message?.role === 'system');
  expect(ends).toHaveLength(compacted.length);
  expect(new Set(ends.map((message) => message?.content))).toEqual(new Set(['Answer in French.']));
});

test('hooks that are no functions are a problem of the agent', () => {
  const hooks = ['repeat it'] as unknown as AgentSource['postCompactionHooks'] & object;
  expect(() => defineAgent({ id: 'x', model: 'm', postCompactionHooks: hooks })).toThrow(
    'postCompactionHooks: must be functions',
  );
});

test('a program can have the run that is in progress compacted', async () => {
  const answers: Promise<CompactionAnswer>[] = [];
  const { run, requests } = world({
    agent: { compaction: { keepTurns: 2 } },
    steps: 5,
    onPage(n, handle) {
      if (n === 4) answers.push(handle.compact());
    },
  });
  const { compacted } = await run();
  const [answer] = await Promise.all(answers);
  expect(compacted).toMatchObject([{ source: 'manual' }]);
  const [{ beforeTokens, afterTokens, summaryTokens }] = compacted as [(typeof compacted)[0] & object];
  expect(answer).toEqual({ compacted: true, beforeTokens, afterTokens, summaryTokens });
  expect(requests.at(-1)?.messages.filter(isSummary)).toHaveLength(1);
});

test.each([
  ['no-memory', {}, 3],
  ['nothing-to-trim', { compaction }, 1],
  ['sensitivity-gated', { compaction, sensitivity: 'secret' as const }, 4],
])('a compaction that is not made has a reason: %s', async (reason, agent, page) => {
  const answers: CompactionAnswer[] = [];
  const { run } = world({
    agent: { ...agent, ...('compaction' in agent && { compaction: { keepTurns: 2 } }) },
    steps: 5,
    // It is known at once, so a tool may wait for it.
    onPage: async (n, handle) => void (n === page && answers.push(await handle.compact())),
  });
  const { compacted } = await run();
  expect(answers).toEqual([{ compacted: false, reason }]);
  expect(compacted).toEqual([]);
});

test('an agent without a run in progress has nothing to compact, and one whose run ends first neither', async () => {
  const answers: Promise<CompactionAnswer>[] = [];
  const controller = new AbortController();
  const { handle } = world({
    agent: { compaction: { keepTurns: 2 } },
    onPage(n, running) {
      if (n !== 5) return;
      answers.push(running.compact());
      controller.abort();
    },
  });
  const none = { compacted: false, reason: 'no-active-run' };
  expect(await handle.compact()).toEqual(none);
  expect(await handle.run('Read.', { signal: controller.signal })).toMatchObject({ status: 'cancelled' });
  expect(await Promise.all(answers)).toEqual([none]);
  expect(await handle.compact()).toEqual(none);
});
