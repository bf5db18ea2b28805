import { z } from 'zod';
import { sensitivity } from '../message.ts';
import { agentView, sanitization, toolEffect, truncationStrategy } from './agent.ts';
import { trustClass } from './trust.ts';

/** A tool as an agent has it: what the model sees of it, and how its calls are guarded. */
const toolDetail = z.object({
  name: z.string(),
  description: z.string(),
  parameters: z.record(z.string(), z.unknown()).describe('JSON Schema of the arguments, as the model sees it.'),
  effect: toolEffect,
  trust: trustClass.describe('Where its results come from.'),
  sensitivity: sensitivity.describe('How far its results may travel.'),
  approval: z
    .enum(['never', 'always', 'depends'])
    .describe(
      'Whether a call needs a person’s approval. `depends`: on its arguments. Policies may ask for one besides.',
    ),
  sideEffectClass: z.string(),
  inboundSanitization: sanitization.optional(),
  timeoutMs: z.int(),
  maxResultTokens: z.int(),
  truncationStrategy,
  executionMode: z.enum(['parallel', 'sequential']),
  deferred: z.boolean().describe('The model sees it only after it has searched for it.'),
  agent: z.string().optional().describe('The agent that does the call, or gets the conversation.'),
});
export type ToolDetail = Readonly<z.infer<typeof toolDetail>>;

/** What a worker announces of an agent beside its `agentView`. */
export const agentSheet = z.object({
  definition: z.record(z.string(), z.unknown()).describe('All that is data of it, with its defaults. No secrets.'),
  toolDetails: z.array(toolDetail).describe('Without the tools of MCP servers, which are asked for them in each run.'),
});
export type AgentSheet = Readonly<z.infer<typeof agentSheet>>;

/** One agent as far as it is known. */
export const agentDetail = agentView.extend({
  seenAt: z.string().optional().describe('When it was last announced. ISO time.'),
  ...agentSheet.partial().shape,
});
export type AgentDetail = Readonly<z.infer<typeof agentDetail>>;
