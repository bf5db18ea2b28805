import { isRecord } from '../../shared/base/json.ts';
import { defined } from '../../shared/base/collections.ts';
import { sanitization, type ToolOptions } from '../../shared/contract/agent/agent.ts';
import { treatmentOf } from '../guards/sanitise.ts';
import { qualifiedNames, distinctlyNamed, type Collisions } from './names.ts';
import { mappedArgs, type MappingSource } from './mapping.ts';
import { ToolError } from './tool-error.ts';
import type { Tool } from './tool.ts';

/**
 * The tools as one agent uses them, each under a name of its own. Options bind to a source and a name: those of a plain
 * name apply to code of this worker, those of `mcp:<server>/<tool>` for that tool of that server. Throws `validation` as
 * `distinctlyNamed` does.
 */
export function configuredTools(
  given: readonly Tool[],
  options: Readonly<Record<string, ToolOptions>> = {},
  collisions: Collisions = 'manual',
): readonly Tool[] {
  return distinctlyNamed(given, collisions).map((tool) => withOptions(tool, optionsOf(tool, options)));
}

/** The agent's options for this very tool: a server's tool never inherits the settings of a tool of the same name. */
function optionsOf({ name, source }: Tool, options: Readonly<Record<string, ToolOptions>>): ToolOptions | undefined {
  const key = (source ? qualifiedNames(source) : [name]).find((one) => Object.hasOwn(options, one));
  return key === undefined ? undefined : options[key];
}

/** A tool as one agent uses it. */
export function withOptions(tool: Tool, options: ToolOptions | undefined): Tool {
  if (!options) return tool;
  const { args: fixedArgs, ...rest } = options;
  const names = setNames({ ...rest, fixedArgs });
  const parameters = names.length > 0 ? withoutFixedArgs(tool.parameters, names) : undefined;
  // An agent may ask for an approval where the tool does not, and do without where the tool asks for one at every call.
  const inboundSanitization = treatmentFor(tool, options);
  return { ...tool, ...defined({ ...rest, inboundSanitization, fixedArgs, parameters }) };
}

/** Results that an agent trusts less than their tool does get at least what its class asks for, whatever the tool says. */
function treatmentFor({ inboundSanitization: own }: Tool, { inboundSanitization, trust }: ToolOptions) {
  if (inboundSanitization !== undefined || own === undefined || trust === undefined) return inboundSanitization;
  const order = sanitization.options;
  return order.indexOf(treatmentOf[trust]) > order.indexOf(own) ? treatmentOf[trust] : own;
}

/** The arguments that the model does not set. */
export function setNames({ fixedArgs, inputMapping }: SetArgs): readonly string[] {
  return Object.keys({ ...inputMapping, ...fixedArgs });
}

interface SetArgs {
  readonly fixedArgs?: ToolOptions['args'];
  readonly inputMapping?: ToolOptions['inputMapping'];
}

/**
 * The arguments that come from the run, and over them those that the agent sets itself, with their secrets. Throws a `ToolError`
 * when one of these is missing.
 */
export function fixedArgs(
  { fixedArgs: args, inputMapping }: Pick<Tool, 'fixedArgs' | 'inputMapping'>,
  secrets: { get(name: string): string | undefined } | undefined,
  source: MappingSource,
): Readonly<Record<string, unknown>> | undefined {
  const mapped = inputMapping && mappedArgs(inputMapping, source);
  if (!args) return mapped;
  const resolved = configArgs(args, secrets ?? { get: () => undefined });
  if (resolved.kind === 'ready') return { ...mapped, ...resolved.args };
  throw new ToolError('tool_unavailable', `this worker does not have the secret ${resolved.missing.join(', ')}`);
}

/** Arguments that an agent sets itself (`toolOptions.<tool>.args`). */
type FixedArgs = NonNullable<ToolOptions['args']>;

/** The arguments with their secrets, or the names of the secrets that this worker does not have. */
type ConfigArgs =
  | { readonly kind: 'ready'; readonly args: Readonly<Record<string, unknown>> }
  | { readonly kind: 'capability_blocked'; readonly missing: readonly string[] };

/**
 * Puts the values of secrets in the place of `{ secret: NAME }`, also one level down. They belong into the call of the tool
 * and nowhere else: not into an event, a journal or a text that a model reads.
 */
export function configArgs(args: FixedArgs, secrets: { get(name: string): string | undefined }): ConfigArgs {
  const missing = new Set<string>();
  const resolved = (value: FixedArgs[string]): unknown => {
    if (value === null || typeof value !== 'object') return value;
    if (!isReference(value)) return mapFields(value, resolved);
    const secret = secrets.get(value.secret);
    if (secret === undefined) missing.add(value.secret);
    return secret;
  };
  const ready = mapFields(args, resolved);
  return missing.size > 0 ? { kind: 'capability_blocked', missing: [...missing] } : { kind: 'ready', args: ready };
}

function isReference(value: object): value is { readonly secret: string } {
  return Object.keys(value).length === 1 && 'secret' in value && typeof value.secret === 'string';
}

function mapFields<T>(fields: Readonly<Record<string, T>>, map: (value: T) => unknown): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, map(value)]));
}

const alternatives = ['allOf', 'anyOf', 'oneOf'] as const;

/**
 * The JSON Schema of arguments without these properties: neither described nor required, in the branches of `allOf`,
 * `anyOf` and `oneOf` neither. The input is not changed.
 */
export function withoutFixedArgs(schema: Readonly<Record<string, unknown>>, names: readonly string[]) {
  const rest: Record<string, unknown> = { ...schema };
  const { properties, required, dependentRequired, dependentSchemas } = schema;
  if (isRecord(properties)) rest['properties'] = withoutNames(properties, names);
  if (isRecord(dependentSchemas)) rest['dependentSchemas'] = withoutNames(dependentSchemas, names);
  if (Array.isArray(required)) rest['required'] = required.filter((name) => !names.includes(String(name)));
  if (isRecord(dependentRequired)) {
    const kept = Object.entries(withoutNames(dependentRequired, names)).map(([name, needed]) => [
      name,
      Array.isArray(needed) ? needed.filter((one) => !names.includes(String(one))) : needed,
    ]);
    rest['dependentRequired'] = Object.fromEntries(kept);
  }
  for (const keyword of alternatives) {
    const branches = schema[keyword];
    if (Array.isArray(branches))
      rest[keyword] = branches.map((branch: unknown) => (isRecord(branch) ? withoutFixedArgs(branch, names) : branch));
  }
  return rest;
}

/** The fixed arguments that the model has set all the same: a call with any is refused as `invalid_input`. */
export function fixedArgsIn(args: unknown, names: readonly string[]): string[] {
  return isRecord(args) ? names.filter((name) => Object.hasOwn(args, name)) : [];
}

function withoutNames(fields: Readonly<Record<string, unknown>>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));
}
