import { defined } from '../../shared/base/collections.ts';
import { problemsOf } from '../../shared/base/problems.ts';
import { z } from 'zod';
import { RunError } from '../../shared/base/errors.ts';
import { ToolError } from './tool-error.ts';
import { toolSettings, type CheckedArgs, type Tool, type ToolDefinition, type ToolExample } from './tool.ts';

const brand = Symbol.for('millrace.tool');

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
  const parsed = toolSettings.safeParse(definition);
  const problems = problemsOf(parsed.error, 'tool', undefined, toolSettings);
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
  const { inputSchema: _schema, execute: _execute, reconcile: _reconcile, ...rest } = parsed.data;
  const { needsApproval, facts, summarize, preferredModel, inboundSanitization, sandboxPolicy, ...more } = rest;
  const { deferLoading, defer_loading: deferred, outputSchema: _output, ...plain } = more;
  const reconcile: Tool['reconcile'] = reconciles
    ? async (key, args, signal) =>
        (await definition.reconcile?.(key, args as z.output<Input>, signal)) ?? { outcome: 'unknown' }
    : undefined;
  const { outputSchema } = definition;
  const checkOutput = outputSchema && ((value: unknown) => checkedOutput(outputSchema, value));
  const tool: Tool = {
    ...plain,
    parameters,
    deferLoading: deferLoading ?? deferred ?? false,
    sideEffectClass: plain.sideEffectClass ?? sideEffectOf[plain.effect],
    needsApproval: needsApproval as Tool['needsApproval'],
    check: (args) => checkWith(definition.inputSchema, args),
    ...defined({
      preferredModel,
      inboundSanitization,
      sandboxPolicy,
      reconcile,
      summarize,
      facts: facts as Tool['facts'],
      checkOutput,
    }),
    execute: (args, context) => {
      const value = definition.execute(args as z.output<Input>, context);
      return checkOutput ? checkOutput(value) : value;
    },
  };
  Object.defineProperty(tool, brand, { value: true });
  return Object.freeze(tool);
}

/** A tool of this package. Its results are `built-in` where the definition says nothing else. */
export function definePackageTool<Input extends z.ZodType>(definition: ToolDefinition<Input>): Tool {
  return Object.freeze({ ...defineTool({ trust: 'built-in', ...definition }), ofPackage: true });
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
