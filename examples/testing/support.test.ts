// Tests of an agent with vitest: no Redis, no provider, no network, and no time that passes.
// Run them with `npx vitest run examples/testing`.

import { join } from 'node:path';
import { defineAgent, defineTool } from 'millrace/worker';
import {
  assertAllAnswered,
  assertCalls,
  assertCompleted,
  assertCost,
  calls,
  fails,
  recordedModel,
  testAgent,
} from 'millrace/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';

const lookupOrder = defineTool({
  name: 'lookup_order',
  description: 'Finds an order by its number.',
  inputSchema: z.object({ order: z.string() }),
  effect: 'read',
  execute: () => {
    throw new Error('a test must not reach the shop');
  },
});

const refund = defineTool({
  name: 'refund',
  description: 'Pays money back.',
  inputSchema: z.object({ order: z.string(), amountUsd: z.number() }),
  needsApproval: true,
  execute: () => {
    throw new Error('a test must not pay');
  },
});

const support = defineAgent({
  id: 'support',
  model: 'gpt-5.2-mini',
  instructions: 'You answer questions about orders, briefly.',
  tools: [lookupOrder, refund],
  budget: { maxCostUsd: 0.02 },
});

const tools = { lookup_order: () => ({ state: 'shipped' }), refund: () => 'paid' };

test('looks the order up before it answers', async () => {
  const agent = testAgent(support, { model: [calls('lookup_order', { order: '7' }), 'It was shipped.'], tools });
  const run = await agent.run('Where is order 7?');
  assertCompleted(run, 'It was shipped.');
  assertCalls(run, [{ name: 'lookup_order', args: { order: '7' } }]);
  assertCost(run, { atMostUsd: 0.001 });
});

test('pays nothing back without a person', async () => {
  const model = [calls('refund', { order: '7', amountUsd: 20 }), 'I may not do that.'];
  const people = { refund: { granted: false, reason: 'not this month' } };
  const run = await testAgent(support, { model, tools, people }).run('I want my money back!');
  assertCalls(run, []);
  expect(run.calls).toMatchObject([{ name: 'refund', status: 'refused', error: { kind: 'approval_denied' } }]);
});

test('waits out a busy provider', async () => {
  const agent = testAgent(support, { model: [fails('rate_limit', { retryAfterMs: 30_000 }), 'Hello.'], tools });
  assertCompleted(await agent.run('Hello?'), 'Hello.');
});

test('answers as it did when the conversation was recorded', async () => {
  const model = recordedModel({ file: join(import.meta.dirname, 'recordings/order-7.json') });
  const run = await testAgent(support, { model, tools }).run('Where is order 7?');
  assertCompleted(run, /shipped/);
  assertAllAnswered(model);
});
