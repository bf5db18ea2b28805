import type { ToolOptions } from '../../shared/agent.ts';
import { configArgs, withoutFixedArgs } from '../guards/config-args.ts';
import { ToolError } from './tool-error.ts';
import type { Tool } from './tool.ts';

/** A tool as one agent uses it. */
export function withOptions(tool: Tool, options: ToolOptions | undefined): Tool {
  if (!options) return tool;
  const { args, needsApproval, ...rest } = options;
  const set = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return {
    ...tool,
    ...set,
    // An agent may ask for an approval where the tool does not, and do without where the tool says so for every call.
    ...(needsApproval !== undefined && { needsApproval }),
    ...(args && { parameters: withoutFixedArgs(tool.parameters, Object.keys(args)) }),
  };
}

/** The arguments that the agent sets itself, with their secrets. Throws a `ToolError` when one of these is missing. */
export function fixedArgs(
  options: ToolOptions | undefined,
  secrets: { get(name: string): string | undefined } | undefined,
): Readonly<Record<string, unknown>> | undefined {
  if (!options?.args) return undefined;
  const resolved = configArgs(options.args, secrets ?? { get: () => undefined });
  if (resolved.kind === 'ready') return resolved.args;
  throw new ToolError('capability_blocked', `this worker does not have the secret ${resolved.missing.join(', ')}`);
}
