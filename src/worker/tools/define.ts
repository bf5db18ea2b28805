import { defined } from '../../shared/base/collections.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import {
  modelHint,
  sanitization,
  toolEffect,
  truncationStrategy,
  trustClass,
} from '../../shared/contract/agent/agent.ts';
import { RunError } from '../../shared/base/errors.ts';
import { sensitivity as sensitivityLabel } from '../../shared/contract/message.ts';
import { ToolError } from './tool-error.ts';
import type { ApprovalPredicate, CheckedArgs, Tool, ToolDefinition, ToolExample } from './tool.ts';

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
  truncationStrategy: truncationStrategy.default('middle'),
  needsApproval: z.union([z.boolean(), z.custom(isFunction)], 'must be true, false or a function').default(false),
  deferLoading: z.boolean().optional(),
  defer_loading: z.boolean().optional(),
  outputSchema: z.custom((value) => value instanceof z.ZodType, 'must be a zod schema').optional(),
  examples: z
    .array(z.strictObject({ args: z.record(z.string(), z.unknown()), note: z.string().max(500).optional() }))
    .max(5)
    .default([]),
  secretsAllowed: z.array(z.string().min(1)).max(64).default([]),
  inboundSanitization: sanitization.optional(),
  trust: trustClass.default('user-defined'),
  sideEffectClass: z.string().min(1).max(64).optional(),
  sandboxPolicy: z.string().min(1).max(64).optional(),
  memoryGuardTier: z.string().min(1).max(64).optional(),
  facts: z.custom(isFunction, 'must be a function').optional(),
  summarize: z.custom(isFunction, 'must be a function').optional(),
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
  const problems = problemsOf(parsed.error, 'tool');
  const parameters = parametersOf(definition.inputSchema, problems);
  const reconciles = definition.reconcile !== undefined;
  if (parsed.success && parsed.data.effect !== 'once') {
    if (reconciles) problems.push('reconcile: has no meaning unless effect is once');
    if (definition.onUnknown !== undefined) problems.push('onUnknown: has no meaning unless effect is once');
  }
  if (parsed.success && problems.length === 0)
    problems.push(...wrongExamples(definition.inputSchema, parsed.data.examples));
  if (!parsed.success || problems.length > 0) {
    const code = problems.some((problem) => problem.startsWith('preferredModel'))
      ? 'invalid_preferred_model'
      : 'validation';
    throw new RunError(code, `tool ${definition.name}:\n  ${problems.join('\n  ')}`, { details: problems });
  }
  const {
    inputSchema: _schema,
    execute: _execute,
    reconcile: _reconcile,
    memoryGuardTier: _tier,
    ...rest
  } = parsed.data;
  const { needsApproval, facts, summarize, preferredModel, inboundSanitization, sandboxPolicy, ...more } = rest;
  const { deferLoading, defer_loading: deferred, outputSchema: _output, ...plain } = more;
  const reconcile: Tool['reconcile'] = reconciles
    ? async (key, args, signal) =>
        (await definition.reconcile?.(key, args as z.output<Input>, signal)) ?? { outcome: 'unknown' }
    : undefined;
  const tool: Tool = {
    ...plain,
    parameters,
    deferLoading: deferLoading ?? deferred ?? false,
    sideEffectClass: plain.sideEffectClass ?? sideEffectOf[plain.effect],
    needsApproval: needsApproval as boolean | ApprovalPredicate<unknown>,
    check: (args) => checkWith(definition.inputSchema, args),
    ...defined({ preferredModel, inboundSanitization, sandboxPolicy, reconcile }),
    ...defined({ facts: facts as Tool['facts'], summarize: summarize as Tool['summarize'] }),
    execute: (args, context) => {
      const value = definition.execute(args as z.output<Input>, context);
      return definition.outputSchema ? checkedOutput(definition.outputSchema, value) : value;
    },
  };
  Object.defineProperty(tool, brand, { value: true });
  return Object.freeze(tool);
}

const sideEffectOf = { read: 'read-only', idempotent: 'idempotent', once: 'side-effecting' } as const;

/** Arguments by a zod schema, each problem with its path. */
async function checkWith(schema: z.ZodType, args: unknown): Promise<CheckedArgs> {
  const checked = await schema.safeParseAsync(args);
  if (checked.success) return { ok: true, value: checked.data };
  return { ok: false, problems: problemsOf(checked.error, 'arguments') };
}

/** The answer of a tool, as its author has promised it. */
async function checkedOutput(schema: z.ZodType, value: unknown): Promise<unknown> {
  const checked = await schema.safeParseAsync(await value);
  if (checked.success) return checked.data;
  const problems = problemsOf(checked.error, 'arguments').join('; ');
  throw new ToolError('invalid_output', `its result is not what it promises: ${problems}`);
}

/** Examples that the schema refuses would teach the model mistakes. */
function wrongExamples(schema: z.ZodType, examples: readonly ToolExample[]): string[] {
  return examples.flatMap(({ args }, index) => {
    try {
      const checked = schema.safeParse(args);
      return problemsOf(checked.error, 'arguments').map((problem) => `examples.${index}: ${problem}`);
    } catch {
      // A schema that can only be checked asynchronously is not awaited here.
      return [];
    }
  });
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
