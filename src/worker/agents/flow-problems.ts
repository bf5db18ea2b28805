import { didYouMean, thereIsNo } from '../../shared/base/nearest.ts';
import { isRecord } from '../../shared/base/json.ts';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { serverPrefix, serverTool } from '../../shared/contract/agent/mcp.ts';
import { reservedToolNames } from '../../shared/contract/reserved.ts';
import { grantsOf } from '../tools/names.ts';
import type { Tool } from '../tools/tool.ts';

type Schema = Readonly<Record<string, unknown>>;

/**
 * What a `dataFlowPolicy` says about tools and arguments that the agent does not have: a rule with a misspelt name would protect
 * nothing. `others`: names of its tools that are made for it. What servers and capabilities bring is not known before a run.
 */
export function flowProblems(
  definition: AgentDefinition,
  tools: readonly Tool[],
  others: readonly string[],
): readonly string[] {
  const policy = definition.dataFlowPolicy;
  if (!policy) return [];
  const own = new Map(tools.map((tool) => [tool.name, tool]));
  const names = [...own.keys(), ...others];
  const named = [
    ...Object.keys(policy.tools).map((name) => [`dataFlowPolicy.tools.${name}`, name] as const),
    ...policy.declassifySinks.map((name) => ['dataFlowPolicy.declassifySinks', name] as const),
  ];
  const ofArguments = Object.entries(policy.tools).flatMap(([name, { arguments: rules }]) => {
    const schema = own.get(name)?.parameters;
    if (!schema) return [];
    const given = Object.keys({ ...definition.toolOptions[name]?.args, ...definition.toolOptions[name]?.inputMapping });
    return Object.keys(rules).flatMap((path) => argumentProblem(name, path, schema, given));
  });
  return [...named.flatMap(([field, name]) => nameProblem(field, name, names, definition)), ...ofArguments];
}

function nameProblem(field: string, name: string, names: readonly string[], definition: AgentDefinition): string[] {
  const { capabilities, mcpServers } = definition;
  if (capabilities.length > 0 || names.includes(name) || reservedToolNames.some((one) => one === name)) return [];
  const grants = grantsOf(definition);
  if (!name.startsWith(serverPrefix)) {
    const hint = grants.size > 0 ? `; a tool of a server is ${serverPrefix}<server>/<tool>` : '';
    return [`${field}: ${thereIsNo('tool', name, names)}${hint}`];
  }
  const { server, tool } = serverTool(name);
  if (tool === undefined || tool === '') return [`${field}: ${name} must be ${serverPrefix}<server>/<tool>`];
  if (Object.hasOwn(mcpServers, server) && grants.has(server)) return [];
  return [`${field}: the agent is granted no MCP server ${server}${didYouMean(server, grants.keys())}`];
}

function argumentProblem(tool: string, path: string, schema: Schema, given: readonly string[]): string[] {
  const field = `dataFlowPolicy.tools.${tool}.arguments.${path}`;
  const [first = ''] = path.split('.');
  if (given.includes(first)) return [`${field}: the agent sets ${first} itself, so no model can`];
  let level: readonly Schema[] = [schema];
  for (const part of path.split('.')) {
    const below = level.flatMap((one) => fieldOf(one, part, schema));
    // Whatever is not described may be there.
    if (below.includes('anything')) return [];
    const found = below.filter((one) => one !== 'anything');
    if (found.length === 0) {
      const known = level.flatMap((one) => namesIn(one, schema));
      return [`${field}: ${thereIsNo('argument', part, new Set(known))}`];
    }
    level = found;
  }
  return [];
}

type Found = Schema | 'anything';

/** What a schema has under this name. Items of a list count as the list itself. */
function fieldOf(schema: Schema, name: string, root: Schema): Found[] {
  return formsOf(schema, root).flatMap((form): Found[] => {
    if (form === 'anything') return [form];
    const { properties, additionalProperties } = form;
    const field = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (field !== undefined) return [isRecord(field) ? field : 'anything'];
    return additionalProperties === undefined || additionalProperties === false ? [] : ['anything'];
  });
}

function namesIn(schema: Schema, root: Schema): string[] {
  return formsOf(schema, root).flatMap((form) =>
    form !== 'anything' && isRecord(form['properties']) ? Object.keys(form['properties']) : [],
  );
}

const maxForms = 64;

/** The objects that a schema describes: its branches, what it refers to, and what its lists hold. */
function formsOf(schema: Schema, root: Schema): Found[] {
  const forms: Found[] = [];
  const open: unknown[] = [schema];
  for (let seen = 0; open.length > 0 && seen < maxForms; seen++) {
    const one = open.shift();
    if (!isRecord(one)) continue;
    const { $ref, anyOf, oneOf, allOf, items, prefixItems, properties } = one;
    if (typeof $ref === 'string') {
      const target = $ref.startsWith('#/') ? at(root, $ref.slice(2).split('/')) : undefined;
      if (target === undefined) forms.push('anything');
      else open.push(target);
    }
    for (const list of [anyOf, oneOf, allOf, prefixItems]) if (Array.isArray(list)) open.push(...list);
    if (items !== undefined) open.push(items);
    if (isRecord(properties) || one['additionalProperties'] !== undefined) forms.push(one);
    else if (Object.keys(one).every((key) => !describing.has(key))) forms.push('anything');
  }
  return forms;
}

/** A schema with none of these says nothing about what a value is. */
const describing = new Set(['type', 'enum', 'const', '$ref', 'anyOf', 'oneOf', 'allOf', 'items', 'prefixItems']);

function at(root: unknown, path: readonly string[]): unknown {
  let found = root;
  for (const part of path)
    found = isRecord(found) ? found[part.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined;
  return found;
}
