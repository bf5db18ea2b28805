import { z } from 'zod';
import type { Message } from '../../../../src/shared/contract/message.ts';
import { FallbackChain } from '../../../../src/worker/llm/fallback-chain.ts';
import type { LlmProvider, LlmRequest } from '../../../../src/worker/llm/provider.ts';
import { createScriptedProvider, type ModelScript } from '../../../../src/worker/llm/backends/scripted.ts';
import type { CompactionOutcome, CompactionPolicy } from '../../../../src/worker/turn/compaction/policy.ts';
import { defineTool } from '../../../../src/worker/tools/define.ts';
import { price, stepOf } from '../world.ts';

export interface PolicyOptions extends Partial<Omit<CompactionPolicy, 'report' | 'summarizer'>> {
  /** What the summarizer answers. Default: the number of its summary. */
  readonly summaries?: ModelScript;
  readonly summarizer?: Partial<CompactionPolicy['summarizer']>;
  readonly window?: number;
  /** Who the summarizer is. */
  readonly as?: { readonly id: string; readonly model: string };
}

/** The compaction of a turn, with a summarizer of its own whose requests are kept. */
export function makeCompaction({ summaries, summarizer, window = 16_384, as, ...more }: PolicyOptions = {}) {
  const requests: LlmRequest[] = [];
  const outcomes: CompactionOutcome[] = [];
  const causes: unknown[] = [];
  const script: ModelScript = summaries ?? (() => ({ text: `Summary number ${requests.length}.` }));
  const provider: LlmProvider = createScriptedProvider(
    (request, signal) => {
      requests.push(request);
      return script(request, signal);
    },
    { id: as?.id ?? 'summaries' },
  );
  const candidate = { provider, model: as?.model ?? 'small', maxAttempts: 1, backoff: 'exponential' as const };
  const clock = { now: () => 0, monotonic: () => 0, sleep: async () => {} };
  const compaction: CompactionPolicy = {
    keepTurns: 6,
    emergencyKeepTurns: 2,
    summaryMaxTokens: 200,
    secret: false,
    hooks: [],
    contextWindowOf: () => window,
    summarizer: {
      chain: new FallbackChain([candidate], { clock, price: () => price }),
      contextWindow: 100_000,
      accepts: ['public', 'internal'],
      ...summarizer,
    },
    report(outcome, cause) {
      outcomes.push(outcome);
      if (cause !== undefined) causes.push(cause);
    },
    ...more,
  };
  return { compaction, requests, outcomes, causes };
}

/** A conversation of so many turns, each of about so many tokens, that ends with a question. */
export function turnsOf(count: number, tokens: number): Message[] {
  const turns = Array.from({ length: count }, (_, index): Message[] => [
    { role: 'user', content: `Question ${index + 1}. ${'q'.repeat(Math.floor(tokens * 1.5))}` },
    {
      role: 'assistant',
      parts: [{ type: 'text', text: `Answer ${index + 1}. ${'a'.repeat(Math.floor(tokens * 1.5))}` }],
    },
  ]);
  return [...turns.flat(), { role: 'user', content: 'And now?' }];
}

/** Everything that a request says outside the system. */
export function bodyOf(request: LlmRequest | undefined): readonly Message[] {
  return (request?.messages ?? []).filter(({ role }) => role !== 'system');
}

/** The system messages that a request begins with. */
export function prefixOf({ messages }: LlmRequest): readonly Message[] {
  return messages.slice(
    0,
    messages.findIndex(({ role }) => role !== 'system'),
  );
}

/** What is wrong about calls and results of a request. */
export function pairingProblems({ messages }: Pick<LlmRequest, 'messages'>): string[] {
  const problems: string[] = [];
  let open: string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!open.includes(message.toolCallId)) problems.push(`${index}: a result without a call`);
      open = open.filter((id) => id !== message.toolCallId);
      continue;
    }
    if (open.length > 0) problems.push(`${index}: ${open.length} calls without results before it`);
    open =
      message.role === 'assistant' ? message.parts.flatMap((part) => (part.type === 'tool_call' ? [part.id] : [])) : [];
  }
  return open.length > 0 ? [...problems, 'the last calls have no results'] : problems;
}

/** Answers with 3 KB that say which page it is. */
export const pages = defineTool({
  name: 'read_page',
  description: 'Reads a page.',
  inputSchema: z.object({ n: z.number() }),
  effect: 'read',
  execute: ({ n }) => `page ${n} ${'x'.repeat(3_000)}`,
});

/** Reads so many pages, one in each step. */
export function reads(steps: number): ModelScript {
  return (request) =>
    stepOf(request) <= steps ? { toolCalls: [{ name: 'read_page', args: { n: stepOf(request) } }] } : { text: 'done' };
}

export const noLimits = { maxSteps: 1_000, maxLlmCalls: 1_000, maxToolCalls: 1_000 };
