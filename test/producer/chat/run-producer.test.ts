import { expect, test } from 'vitest';
import { createInMemoryChatTurns, handleChatTurn, runProducer } from '../../../src/producer/index.ts';
import { createAgent, defineAgent, defineTool } from '../../../src/worker/index.ts';
import { createScriptedProvider, type ModelScript } from '../../../src/worker/llm/backends/scripted.ts';
import { always, callsTool } from '../../../src/testing/scripts.ts';
import { z } from 'zod';
import { hooks, identity, readAll, shownText, typesOf } from './support.ts';

const pay = defineTool({
  name: 'pay',
  description: 'Pays.',
  inputSchema: z.object({}),
  needsApproval: true,
  execute: () => 'paid',
});

/** A turn that is answered by an agent in this process, without Redis. */
async function turnOf(says: ModelScript) {
  const definition = defineAgent({ id: 'support', model: 'gpt-5.2-mini', tools: [pay] });
  const agent = createAgent(definition, { provider: createScriptedProvider(says), env: {} });
  const { hooks: all, stored } = hooks({ produce: () => runProducer(agent.stream('Where is order 7?')) });
  const { body } = handleChatTurn({ identity, hooks: all, turns: createInMemoryChatTurns() });
  return { lines: await readAll(body), stored };
}

test('an agent in this process answers a turn: one envelope, its text streamed and stored', async () => {
  const { lines, stored } = await turnOf(always('It was sent.'));
  expect(typesOf(lines).filter((type) => type.startsWith('session.run.'))).toEqual([
    'session.run.started',
    'session.run.completed',
  ]);
  expect([shownText(lines), stored]).toEqual(['It was sent.', ['It was sent.']]);
});

test.each<[string, ModelScript, string]>([
  ['fails', () => ({ error: { kind: 'bad_request' } }), ''],
  ['waits for a person', callsTool('pay'), 'the run has no answer'],
])('an agent that %s fails the turn, and nothing is stored', async (_, script, message) => {
  const { lines, stored } = await turnOf(script);
  expect(typesOf(lines.slice(-2))).toEqual(['error', 'session.run.failed']);
  expect(lines.at(-1)?.data.message).toContain(message);
  expect(stored).toEqual([]);
});
