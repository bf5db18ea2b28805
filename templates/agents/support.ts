import { defineAgent } from 'millrace/worker';
import { lookupOrder } from './tools/lookup_order.ts';

// `millrace dev` loads this file again whenever it changes.
export default defineAgent({
  id: 'support',
  description: 'Answers questions about orders.',
  model: 'gpt-5.2-mini',
  instructions: 'You answer questions about orders, briefly. Look an order up before you say anything about it.',
  tools: [lookupOrder],
  limits: { maxSteps: 8 },
  budget: { maxCostUsd: 0.02 },
});
