import { array, assert, asyncProperty, boolean, integer, record, uniqueArray } from 'fast-check';
import { expect, test } from 'vitest';
import { z } from 'zod';
import type { CallDecision } from '../../../src/shared/contract/control.ts';
import { type JournalEntry, journalEntry } from '../../../src/shared/contract/journal/journal.ts';
import type { LlmRequest } from '../../../src/worker/llm/provider.ts';
import { createAgentTool } from '../../../src/worker/agents/agent-tool.ts';
import { createHandoffTool } from '../../../src/worker/tools/builtin/agents.ts';
import { defineTool } from '../../../src/worker/tools/define.ts';
import { createToolExecutor } from '../../../src/worker/tools/execute/execute.ts';
import type { SuspendedWait, TurnOutcome } from '../../../src/worker/turn/turn-ports.ts';
import { boundary } from '../../../src/shared/contract/handoff/handoff-filters.ts';
import { nextMove } from '../../../src/worker/turn/next-move.ts';
import { foldJournal } from '../../../src/shared/contract/journal/fold.ts';
import { limits } from '../../../src/shared/contract/agent/agent.ts';
import { pairingProblems } from './compaction/compaction-world.ts';
import { makeTurn, question, stepOf } from './world.ts';
import { rounds } from '../../support/lane.ts';

const inputSchema = z.object({ input: z.string().optional() });
const make = (name: string, effect: 'read' | 'once', needsApproval = false) =>
  defineTool({ name, description: name, inputSchema, effect, needsApproval, execute: () => `${name} is done` });
const broken = defineTool({
  name: 'broken',
  description: 'Fails.',
  inputSchema,
  effect: 'read',
  execute: () => {
    throw new TypeError('it broke');
  },
});
const tools = [
  make('look', 'read'),
  make('put', 'once'),
  make('pay', 'once', true),
  broken,
  createAgentTool({ id: 'helper' }, { name: 'ask' }),
  createHandoffTool('other', undefined),
];
const names = [...tools.map(({ name }) => name), 'unknown'];

/** What the model does step by step, what the user says before which step, and how each wait ends. */
interface Story {
  readonly steps: readonly (readonly number[])[];
  readonly says: readonly number[];
  readonly grants: readonly boolean[];
}

const at = '2026-01-02T03:04:05.000Z';
const context = {
  runId: 'R',
  tenant: 'T',
  keyFor: (step: number, index: number) => `R:s${step}:t${index}`,
  childIdFor: (step: number, index: number) => `C${step}-${index}`,
  people: { isHeadless: false, ttlMs: 1_000_000, approvers: 1 },
  hasAgent: () => true,
};

/** What the run room writes when a turn waits, and when its wait has ended. */
function waited({ asks = [], children = [], reason }: SuspendedWait, seq: number, grant: boolean): JournalEntry[] {
  const asked = [
    ...asks.map(({ index, id, kind }) => ({ index, id, kind, requestedAt: at, expiresAt: at })),
    ...children.map(({ id, index }) => ({ id, index, kind: 'child' as const, requestedAt: at, expiresAt: at })),
  ];
  const decisions: CallDecision[] = [
    ...asks.map(({ id }) => ({ kind: 'approval' as const, id, granted: grant, by: [], at })),
    ...children.map(({ id }) => ({
      kind: 'child' as const,
      id,
      status: grant ? ('completed' as const) : ('failed' as const),
      text: 'answered',
      costMicrocents: 1,
      steps: 1,
      at,
    })),
  ];
  return [
    { v: 1, t: 'suspended', seq, reason, at, asks: asked },
    { v: 1, t: 'decided', at, decisions },
  ];
}

/** Takes a turn from where its journal stands to its end, as workers would. Answers how it ended and what models saw. */
async function play(story: Story, journal: JournalEntry[]): Promise<{ outcome: TurnOutcome; requests: LlmRequest[] }> {
  const said = story.says.map((step) => ({ id: `m${step}`, text: `before ${step}`, at }));
  const world = makeTurn(
    {
      script: (request) => {
        const calls = story.steps[stepOf(request) - 1] ?? [];
        const toolCalls = calls.map((tool, index) => ({
          name: names[tool] ?? '',
          id: `c${index}`,
          args: { input: 'it' },
        }));
        return toolCalls.length > 0 ? { toolCalls } : { text: 'done' };
      },
      limits: { maxSteps: 40, maxCorrections: 40 },
      deps: {
        tools: createToolExecutor(tools, context),
        readInbox: async (known) => {
          const { step } = foldJournal(question, journal);
          return said.filter(({ id }) => !known.has(id) && Number(id.slice(1)) <= step);
        },
      },
    },
    journal,
  );
  for (let turns = 0; turns < 60; turns++) {
    const outcome = await world.run();
    const { state } = outcome;
    if (outcome.status === 'suspended') {
      journal.push(...waited(outcome.wait, state.suspensions + 1, story.grants[state.suspensions % 4] ?? true));
    } else if (outcome.status === 'handed_off') {
      const filter = boundary().descriptor;
      journal.push({ v: 1, t: 'handed_off', step: state.step, from: 'one', to: outcome.to, filter });
    } else {
      return { outcome, requests: world.requests };
    }
  }
  throw new Error('the turn does not end');
}

const stories = record({
  steps: array(array(integer({ min: 0, max: names.length - 1 }), { minLength: 1, maxLength: 3 }), {
    maxLength: 4,
  }),
  says: uniqueArray(integer({ min: 0, max: 4 }), { maxLength: 2 }),
  grants: array(boolean(), { minLength: 4, maxLength: 4 }),
});

const expected = new Set(['multiple_handoffs_in_step']);

test('every beginning of every journal is a state that the loop goes on from, with requests that pair', async () => {
  await assert(
    asyncProperty(stories, async (story) => {
      const journal: JournalEntry[] = [];
      const { outcome } = await play(story, journal);
      for (const entry of journal) expect(journalEntry.parse(JSON.parse(JSON.stringify(entry)))).toBeDefined();
      for (let length = 0; length <= journal.length; length++) {
        const state = foldJournal(question, journal.slice(0, length));
        expect(
          nextMove(state, limits.parse({ maxSteps: 40 }), { toolFailure: 'feed_back', subagentFailure: 'feed_back' })
            .kind,
        ).toBeDefined();
        const again = await play(story, journal.slice(0, length));
        const code = again.outcome.status === 'failed' ? again.outcome.error.code : undefined;
        expect(code === undefined || expected.has(code), `${code} after ${length} entries`).toBe(true);
        expect(again.outcome.status).toBe(outcome.status);
        for (const request of again.requests) expect(pairingProblems(request)).toEqual([]);
      }
    }),
    { numRuns: rounds({ fast: 20, all: 60 }) },
  );
});
