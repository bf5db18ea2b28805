import { defined } from '../../shared/base/defined.ts';
import type { ToolOptions } from '../../shared/contract/agent/agent.ts';
import { configArgs, withoutFixedArgs } from '../guards/config-args.ts';
import { qualifiedNames, distinctlyNamed, type Collisions } from './names.ts';
import { ToolError } from './tool-error.ts';
import type { Tool } from './tool.ts';

/**
 * The tools as one agent uses them, each under a name of its own. Options bind to a source and a name: those of a plain
 * name hold for code of this worker, those of `mcp:<server>/<tool>` for that tool of that server. Throws `validation` as
 * `distinctlyNamed` does.
 */
export function configuredTools(
  given: readonly Tool[],
  options: Readonly<Record<string, ToolOptions>> = {},
  collisions: Collisions = 'manual',
): readonly Tool[] {
  return distinctlyNamed(given, collisions).map((tool) => withOptions(tool, optionsOf(tool, options)));
}

/** What the agent says about this very tool: a server's tool never inherits the settings of a tool of the same name. */
function optionsOf({ name, source }: Tool, options: Readonly<Record<string, ToolOptions>>): ToolOptions | undefined {
  const key = (source ? qualifiedNames(source) : [name]).find((one) => Object.hasOwn(options, one));
  return key === undefined ? undefined : options[key];
}

/** A tool as one agent uses it. */
export function withOptions(tool: Tool, options: ToolOptions | undefined): Tool {
  if (!options) return tool;
  const { args, ...rest } = options;
  const fixed = args && { fixedArgs: args, parameters: withoutFixedArgs(tool.parameters, Object.keys(args)) };
  // An agent may ask for an approval where the tool does not, and do without where the tool says so for every call.
  return { ...tool, ...defined(rest), ...fixed };
}

/** The arguments that the agent sets itself, with their secrets. Throws a `ToolError` when one of these is missing. */
export function fixedArgs(
  { fixedArgs: args }: Pick<Tool, 'fixedArgs'>,
  secrets: { get(name: string): string | undefined } | undefined,
): Readonly<Record<string, unknown>> | undefined {
  if (!args) return undefined;
  const resolved = configArgs(args, secrets ?? { get: () => undefined });
  if (resolved.kind === 'ready') return resolved.args;
  throw new ToolError('tool_unavailable', `this worker does not have the secret ${resolved.missing.join(', ')}`);
}
