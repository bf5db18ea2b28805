import { z } from 'zod';
import { backoff, retry } from './agent/agent.ts';
import { publicId } from '../base/ids.ts';
import { jsonText } from '../base/json.ts';
import { mentionsSecrets } from '../base/template-syntax.ts';

const maxTemplateBytes = 256 * 1024;
const maxDataBytes = 256 * 1024;
const maxSchemaBytes = 64 * 1024;
const dayMs = 86_400_000;

function promptText() {
  return z
    .string()
    .refine((text) => Buffer.byteLength(text) <= maxTemplateBytes, `at most ${maxTemplateBytes} bytes`)
    .refine((text) => !mentionsSecrets(text), 'must not refer to {{ secrets.* }}');
}

function jsonRecord(maxBytes: number) {
  return z
    .record(z.string(), z.unknown())
    .refine((value) => Buffer.byteLength(jsonText(value)) <= maxBytes, `at most ${maxBytes} bytes as JSON`);
}

/** JSON Schema of an answer, in place of the agent's. */
export const outputSchema = jsonRecord(maxSchemaBytes);

export const nodeRetryCodes = ['provider_rate_limit', 'provider_unavailable', 'tool_failed', 'sandbox_error'] as const;

/** Tries of the whole node, above the attempts that its models get. Off unless given. */
export const nodeRetry = z.strictObject({
  /** All in all, the first one included. */
  max: z.int().min(1).max(20),
  backoff: backoff.default('exponential'),
  backoff_ms: z.int().min(0).max(dayMs).default(1_000),
  retry_on: z
    .array(z.enum(nodeRetryCodes))
    .min(1)
    .default([...nodeRetryCodes]),
});
export type NodeRetry = z.infer<typeof nodeRetry>;

/** A vertex of a workflow as its author writes it. `agent_ref` names the agent that it runs. */
export const nodeConfig = z.strictObject({
  type: z.string().min(1).max(64),
  id: publicId,
  agent_ref: publicId,
  /** In place of the agent's own. */
  model: z.string().min(1).max(200).optional(),
  provider: z.string().min(1).max(64).optional(),
  retry: retry.optional(),
  /** Some of the agent's tools; absent: all. */
  tools: z.array(z.string().min(1)).max(128).optional(),
  /** Added to the agent's instructions as it stands: expressions in it are not expanded. */
  system_prompt_append: promptText().optional(),
  /** The user message, with expressions like `{{ inputs.topic }}`. */
  prompt_template: promptText(),
  /** JSON Schema of the answer, in place of the agent's. */
  output_schema: outputSchema.optional(),
  nodeRetry: nodeRetry.optional(),
});
export type NodeConfig = z.infer<typeof nodeConfig>;
export type NodeConfigInput = z.input<typeof nodeConfig>;

/** A node as a run of its own: the run names the agent and brings along what the template may refer to. */
export const runNode = nodeConfig.omit({ agent_ref: true }).extend({
  /** The workflow's inputs, `{{ inputs.* }}`. */
  inputs: jsonRecord(maxDataBytes).optional(),
  /** What other nodes have answered, by node id: `{{ run.outputs.* }}`. */
  outputs: jsonRecord(maxDataBytes).optional(),
});
export type RunNode = z.infer<typeof runNode>;

/** Milliseconds before retry number `n`, from 1. */
export function nodeRetryDelayMs({ backoff: kind, backoff_ms: base }: NodeRetry, n: number): number {
  const delay = kind === 'linear' ? base * n : base * 2 ** Math.min(n - 1, 40);
  return Math.min(delay, dayMs);
}
