import { z } from 'zod';
import { budget } from './money.ts';
import { publicId } from './ids.ts';

/** How often a tool call may take effect. `once` is the default because it is the safe one. */
export const toolEffect = z.enum(['read', 'idempotent', 'once']);
export type ToolEffect = z.infer<typeof toolEffect>;

export const toolFailure = z.enum(['fail', 'feed_back', 'degrade']);

/**
 * Limits of one run. A producer may lower them; raising is bounded by the worker's own configuration.
 * `maxSteps` counts steps that dispatched tools: with 16, a seventeenth batch of tool calls ends the run.
 */
export const limits = z.strictObject({
  maxSteps: z.int().min(1).max(10_000).default(16),
  maxLlmCalls: z.int().min(1).max(10_000).default(50),
  maxToolCalls: z.int().min(1).max(100_000).default(200),
  wallTimeMs: z.int().min(1).max(86_400_000).default(300_000),
  maxCorrections: z.int().min(0).max(100).default(3),
  maxParallelTools: z.int().min(1).max(32).default(8),
});
export type Limits = z.infer<typeof limits>;

/** The same fields, each optional and without a default: what a request or an agent may set. */
export const limitsOverride = z.strictObject({
  maxSteps: limits.shape.maxSteps.unwrap().optional(),
  maxLlmCalls: limits.shape.maxLlmCalls.unwrap().optional(),
  maxToolCalls: limits.shape.maxToolCalls.unwrap().optional(),
  wallTimeMs: limits.shape.wallTimeMs.unwrap().optional(),
  maxCorrections: limits.shape.maxCorrections.unwrap().optional(),
  maxParallelTools: limits.shape.maxParallelTools.unwrap().optional(),
});
export type LimitsOverride = z.infer<typeof limitsOverride>;

export const backoff = z.enum(['exponential', 'linear']);

export const retry = z.strictObject({
  max: z.int().min(1).max(20),
  backoff: backoff.default('exponential'),
});

const fallbackEntry = z.union([
  z.string().min(1),
  z.strictObject({ provider: z.string().min(1), model: z.string().min(1) }),
]);

/**
 * The declarative part of an agent, the same in YAML and TypeScript. Unknown fields are errors. In YAML `tools` holds
 * names; in TypeScript also tool objects, which the loader replaces by their names after registering them.
 */
export const agentDefinition = z.strictObject({
  id: publicId,
  name: z.string().min(1).max(200).optional(),
  version: z.string().max(64).optional(),
  description: z.string().max(2_000).optional(),
  instructions: z.string().max(200_000).default(''),
  provider: z.string().min(1).optional(),
  model: z.string().min(1).max(200),
  fallbackModels: z.array(fallbackEntry).max(16).default([]),
  retry: retry.default({ max: 4, backoff: 'exponential' }),
  tools: z.array(z.string().min(1)).max(128).default([]),
  toolFailure: toolFailure.default('feed_back'),
  limits: limitsOverride.default({}),
  budget: budget.optional(),
  maxOutputTokens: z.int().min(1).max(1_000_000).optional(),
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  stop: z.array(z.string()).max(4).optional(),
  reasoningEffort: z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']).optional(),
  reasoningRetention: z.enum(['keep', 'strip']).default('keep'),
  outputSchema: z.record(z.string(), z.unknown()).optional(),
});

/** What an author writes. */
export type AgentInput = z.input<typeof agentDefinition>;
/** What the system works with: defaults applied. */
export type AgentDefinition = z.output<typeof agentDefinition>;

/** The public part of a loaded agent, as workers announce it and `GET /v1/agents` lists it. */
export const agentView = z.object({
  id: publicId,
  name: z.string().optional(),
  version: z.string().optional(),
  description: z.string().optional(),
  model: z.string(),
  tools: z.array(z.string()),
});
export type AgentView = z.infer<typeof agentView>;

export function agentViewOf({ id, name, version, description, model, tools }: AgentDefinition): AgentView {
  return {
    id,
    ...(name !== undefined && { name }),
    ...(version !== undefined && { version }),
    ...(description !== undefined && { description }),
    model,
    tools,
  };
}
