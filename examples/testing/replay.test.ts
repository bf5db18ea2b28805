// A run that went well, kept as a test: an export of it meets the agent as it is now. No provider, no network, no tool runs.
// `millrace export RUN -o order-7.json` writes such a file. Run it with `npx vitest run examples/testing`.

import { join } from 'node:path';
import { defineAgent, defineTool } from 'millrace/worker';
import { assertNoDepartures, calls, replayExport } from 'millrace/testing';
import { expect, test } from 'vitest';
import { z } from 'zod';

const file = join(import.meta.dirname, 'recordings/order-7.export.json');

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
  execute: () => {
    throw new Error('a test must not pay');
  },
});

const support = defineAgent({
  id: 'support',
  model: 'gpt-5.2-mini',
  instructions: 'You answer questions about orders, briefly.',
  tools: [lookupOrder, refund],
});

test('order 7 goes as it went', async () => {
  const replay = await replayExport(file, support);
  assertNoDepartures(replay);
  expect(replay.costMicrocents).toBeLessThanOrEqual(replay.recordedMicrocents);
});

test('a prompt with which the model pays at once is noticed', async () => {
  const generous = defineAgent({
    id: 'support',
    model: 'gpt-5.2-mini',
    instructions: 'You make every customer happy.',
    tools: [lookupOrder, refund],
  });
  // In place of a script, a provider of yours: then the model itself answers to the new prompt.
  const model = [calls('refund', { order: '7', amountUsd: 20 }), 'I paid it back.'];
  const { departures } = await replayExport(file, generous, { model });
  expect(departures.map(({ kind }) => kind)).toContain('call');
});
