import { defineAgent } from 'millrace/worker';

export default defineAgent({
  id: 'summarise',
  description: 'Puts a customer’s message into one sentence.',
  model: 'gpt-5.2-nano',
  instructions: 'Put the message into one sentence: what happened, and what the customer wants. Add nothing.',
  maxOutputTokens: 200,
  limits: { maxSteps: 1 },
  budget: { maxCostUsd: 0.01 },
});
