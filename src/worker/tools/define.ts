import { z } from 'zod';
import { modelHint, toolEffect } from '../../shared/agent.ts';
import { RunError } from '../../shared/errors.ts';
import { sensitivity as sensitivityLabel } from '../../shared/message.ts';
import type { Tool, ToolDefinition } from './tool.ts';

const brand = Symbol.for('millrace.tool');

const maxDescriptionChars = 4_000;
const maxTimeoutMs = 86_400_000;

const isFunction = (value: unknown) => typeof value === 'function';

/** What `defineTool` takes, with its defaults. Unknown fields are errors: a misspelt `timeoutMs` must not pass unseen. */
const settings = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 of A-Z a-z 0-9 _ -'),
  description: z.string().trim().min(1, 'must not be empty').max(maxDescriptionChars),
  effect: toolEffect.default('once'),
  onUnknown: z.enum(['report', 'suspend', 'fail']).default('report'),
  executionMode: z.enum(['parallel', 'sequential']).default('parallel'),
  sensitivity: sensitivityLabel.default('public'),
  preferredModel: modelHint.optional(),
  timeoutMs: z.int().min(1).max(maxTimeoutMs).default(60_000),
  maxResultTokens: z.int().min(0).default(16_384),
  inputSchema: z.unknown(),
  execute: z.custom(isFunction, 'must be a function'),
  reconcile: z.custom(isFunction, 'must be a function').optional(),
});

/**
 * Declares a tool. Checks everything at once and throws `validation` whose message and details list every problem;
 * `invalid_preferred_model` when the preferred model is among them. The JSON Schema of the arguments is made here, once.
 * The result is frozen.
 *
 * @example
 * export const lookupOrder = defineTool({
 *   name: 'lookup_order',
 *   description: 'Finds an order by its number.',
 *   inputSchema: z.object({ order: z.string() }),
 *   effect: 'read',
 *   execute: async ({ order }, { signal }) => await findOrder(order, signal),
 * })
 */
export function defineTool<Input extends z.ZodType>(definition: ToolDefinition<Input>): Tool {
  const parsed = settings.safeParse(definition);
  const problems = (parsed.error?.issues ?? []).map((issue) => `${issue.path.join('.') || 'tool'}: ${issue.message}`);
  const parameters = parametersOf(definition.inputSchema, problems);
  const reconciles = definition.reconcile !== undefined;
  if (parsed.success && parsed.data.effect !== 'once') {
    if (reconciles) problems.push('reconcile: has no meaning unless effect is once');
    if (definition.onUnknown !== undefined) problems.push('onUnknown: has no meaning unless effect is once');
  }
  if (!parsed.success || problems.length > 0) {
    const code = problems.some((problem) => problem.startsWith('preferredModel'))
      ? 'invalid_preferred_model'
      : 'validation';
    throw new RunError(code, `tool ${definition.name}:\n  ${problems.join('\n  ')}`, { details: problems });
  }
  const { name, description, effect, onUnknown, executionMode, sensitivity, timeoutMs, maxResultTokens } = parsed.data;
  const { preferredModel } = parsed.data;
  const tool: Tool = {
    name,
    description,
    inputSchema: definition.inputSchema,
    parameters,
    effect,
    onUnknown,
    executionMode,
    sensitivity,
    timeoutMs,
    maxResultTokens,
    ...(preferredModel !== undefined && { preferredModel }),
    execute: (args, context) => definition.execute(args as z.output<Input>, context),
    ...(reconciles && {
      reconcile: async (key: string, args: unknown, signal: AbortSignal) =>
        (await definition.reconcile?.(key, args as z.output<Input>, signal)) ?? { outcome: 'unknown' as const },
    }),
  };
  Object.defineProperty(tool, brand, { value: true });
  return Object.freeze(tool);
}

function parametersOf(schema: z.ZodType, problems: string[]): Record<string, unknown> {
  try {
    const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: 'input' });
    if (parameters.type !== 'object')
      problems.push('inputSchema: must be an object schema, because models send named arguments');
    return parameters;
  } catch (error) {
    problems.push(`inputSchema: has no JSON Schema (${error instanceof Error ? error.message : 'not a zod schema'})`);
    return {};
  }
}
