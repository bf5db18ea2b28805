import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { RunEvent } from '../../../src/shared/contract/event.ts';
import type { HandoffFilterDescriptor } from '../../../src/shared/contract/handoff/handoff.ts';
import { defineAgent, type AgentSource } from '../../../src/worker/agents/define-agent.ts';
import { createScriptedProvider, type ScriptedAnswer } from '../../../src/worker/llm/backends/scripted.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createAgentWith } from '../../../src/worker/local/create-agent.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { rounds } from '../../support/lane.ts';

/** What the model of any agent does next. `pick` chooses among what it sees, or among the ways to do it. */
const op = fc.record({
  kind: fc.constantFrom('read', 'large', 'lore', 'quote', 'send', 'send', 'ask', 'helper', 'handoff', 'answer'),
  pick: fc.nat(99),
});
type Op = typeof op extends fc.Arbitrary<infer T> ? T : never;

const filters: readonly HandoffFilterDescriptor[] = [
  { kind: 'full' },
  { kind: 'last-n', n: 2 },
  { kind: 'last-user' },
  { kind: 'summary', summaryLength: 4_000 },
  { kind: 'strip-tool-calls' },
  { kind: 'strip-sensitive-outputs' },
];

const words = ['amber', 'brook', 'cedar', 'delta', 'ember', 'fjord', 'grove', 'haven', 'islet', 'jetty'];
/** Of strangers: unlike every other one, and long enough to be followed. */
const passage = (n: number) =>
  `stranger ${String(1_000 + n)
    .split('')
    .map((digit) => words[Number(digit)])
    .join(' ')} says so ${n}x`;
const passages = /stranger [a-z ]+ says so \d+x/g;

/** What stands in a request that a stranger wrote. */
function seenIn({ messages }: LlmRequest): readonly string[] {
  const texts = messages.map((message) =>
    message.role === 'assistant'
      ? message.parts
          .map((part) => (part.type === 'tool_call' ? part.args : part.type === 'text' ? part.text : ''))
          .join('\n')
      : message.content,
  );
  return [...new Set(texts.join('\n').match(passages))];
}

/** Agents of one process that do by turns what the plan says, and quote to each other whatever they see. */
async function play(plan: readonly Op[], turns: number) {
  const left = [...plan];
  let read = 0;
  let summaries = 0;
  const reading = (name: string, more: Partial<Parameters<typeof defineTool>[0]>, pad = '') =>
    defineTool({
      name,
      description: name,
      inputSchema: z.object({}),
      effect: 'read',
      trust: 'external',
      execute: () => `${pad}${passage(read++)}${pad}`,
      ...more,
    });
  const tools = [
    reading('read', {}),
    reading('large', { truncationStrategy: 'spill-to-file', maxResultTokens: 200 }, 'z '.repeat(1_000)),
    reading('lore', { trust: 'user-defined', execute: () => `The house is old. ${'y '.repeat(600)}` }),
    defineTool({
      name: 'send',
      description: 'send',
      inputSchema: z.object({ text: z.string() }),
      execute: () => 'sent',
    }),
  ];
  const sends: string[] = [];
  const answerTo = (request: LlmRequest): ScriptedAnswer => {
    const seen = seenIn(request);
    const quoted = `I saw: ${seen.join(', ')}.`;
    if (!request.tools) return { text: summaries++ % 2 ? quoted : 'Much was read.' };
    const has = (name: string) => request.tools?.some((tool) => tool.name === name);
    const call = (name: string, args: object = {}, text?: string) => ({ text, toolCalls: [{ name, args }] });
    const { kind, pick } = left.shift() ?? { kind: 'answer', pick: 0 };
    const one = seen[pick % Math.max(1, seen.length)];
    switch (kind) {
      case 'send':
        if (one === undefined) return call('lore');
        sends.push(one);
        return call('send', { text: `Look: ${one}` });
      case 'quote':
        return call('lore', {}, quoted);
      case 'ask':
        return has('ask_agent')
          ? call('ask_agent', { agent: pick % 2 ? 'left' : 'right', message: quoted })
          : { text: quoted };
      case 'helper':
      case 'handoff': {
        const name =
          kind === 'helper' ? `helper_${pick % filters.length}` : `transfer_to_hands_${pick % filters.length}`;
        return has(name)
          ? call(name, kind === 'helper' ? { input: pick % 2 ? quoted : 'Go on.' } : {}, quoted)
          : { text: quoted };
      }
      case 'answer':
        return { text: quoted };
      default:
        return call(kind);
    }
  };
  const base = {
    model: 'm',
    tools,
    dataFlowPolicy: { mode: 'shadow', guardTrifecta: false, trackValues: false },
    compaction: { contextWindow: 16_384, keepTurns: 1 },
    limits: { maxSteps: 60, maxLlmCalls: 200 },
    loopGuard: false,
  } as const satisfies Partial<AgentSource>;
  const others = {
    subagents: ['left', 'right'],
    agentTools: Object.fromEntries(
      filters.map((inputFilter, at) => [`helper_${at}`, { agent: 'left', inputFilter, exposeTurns: 'all' as const }]),
    ),
  };
  const hands = filters.map((_, at) => `hands_${at}`);
  const first = defineAgent({
    ...base,
    ...others,
    id: 'first',
    handoffs: filters.map((filter, at) => ({ agent: `hands_${at}`, filter })),
  });
  const rest = [...hands, 'left', 'right'].map((id) => defineAgent({ ...base, ...others, id }));
  const provider = createScriptedProvider(answerTo);
  const handle = createAgentWith(first, { agents: rest, provider, env: {} });
  const flagged: string[] = [];
  const collect = (event: RunEvent) => {
    if (event.type === 'subagent.event') collect(event.event as RunEvent);
    else if (event.type === 'dataflow.flagged') flagged.push(`${event.runId}:${event.sequenceNumber}`);
  };
  for (let turn = 0; turn < turns; turn++) {
    const stream = handle.stream(`Go on with turn ${turn}.`, { thread: 't' });
    for await (const event of stream) collect(event);
    expect(await stream.result).toMatchObject({ status: 'completed' });
  }
  return { sends, flagged: new Set(flagged) };
}

const plan = (text: string): Op[] =>
  text.split(' ').map((one) => {
    const [kind = '', pick = 0] = one.split(':');
    return { kind: kind as Op['kind'], pick: Number(pick) };
  });

/** Ways that a random plan takes too rarely. */
const examples: [Op[], number][] = [
  // A conversation without its results goes along with a question.
  [plan('read quote helper:4 send'), 1],
  [plan('read quote helper:3 send'), 1],
  // The next turn of the thread hands over, without the results of the first one.
  [plan('read quote answer handoff:4 send answer'), 2],
  [plan('read quote answer handoff:3 ask:0 send answer answer'), 2],
  // The source is summarised, and what quotes it stays; the next turn has only that.
  [plan(`read ${'quote '.repeat(8)}answer send answer`), 2],
  [plan(`read ${'quote '.repeat(12)}answer send answer`), 2],
];

describe('a passage of a stranger', () => {
  test('is found in whatever carries it out, wherever it went before', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(op, { minLength: 4, maxLength: 24 }),
        fc.integer({ min: 1, max: 3 }),
        async (plan, turns) => {
          const { sends, flagged } = await play(plan, turns);
          expect(flagged.size).toBe(sends.length);
        },
      ),
      { numRuns: rounds({ fast: 15, all: 500 }), examples },
    );
  });
});
