import { agentDefinition, type AgentDefinition, type AgentInput } from '../../shared/agent.ts';
import { RunError } from '../../shared/errors.ts';
import type { Tool } from '../tools/tool.ts';

/** A definition with the tools that its author passed as objects. Immutable. */
export interface Agent {
  readonly definition: AgentDefinition;
  /** Tools given as objects. Names in `definition.tools` beyond these are looked up among the folder's tool modules. */
  readonly tools: readonly Tool[];
}

const brand = Symbol.for('millrace.agent');

/** The fields of an agent file; `tools` takes tool objects beside names. */
export type AgentSource = Omit<AgentInput, 'tools' | 'id'> & {
  readonly id: string;
  readonly tools?: readonly (Tool | string)[];
};

/**
 * Declares an agent. Checks everything at once and throws `agent_manifest_invalid` whose message and details list every
 * problem; unknown fields are problems too. The result is frozen.
 *
 * @example
 * export default defineAgent({ id: 'support', model: 'gpt-5.2-mini', instructions: '…', tools: [lookupOrder] })
 */
export function defineAgent(source: AgentSource): Agent {
  const given = source.tools ?? [];
  const tools = given.filter((tool): tool is Tool => typeof tool === 'object' && tool !== null);
  const names = given.map((tool) => (typeof tool === 'string' ? tool : tool.name));
  const problems = new Set(names).size < names.length ? ['tools: a tool is named twice'] : [];
  const parsed = agentDefinition.safeParse({ ...source, tools: names });
  if (!parsed.success)
    problems.push(...parsed.error.issues.map((issue) => `${issue.path.join('.') || 'agent'}: ${issue.message}`));
  if (!parsed.success || problems.length > 0) {
    const id = typeof source.id === 'string' ? source.id : 'without an id';
    throw new RunError('agent_manifest_invalid', `agent ${id}:\n  ${problems.join('\n  ')}`, { details: problems });
  }
  const agent = { definition: deepFreeze(parsed.data), tools: Object.freeze(tools) };
  Object.defineProperty(agent, brand, { value: true });
  return Object.freeze(agent);
}

/** Was this value made by `defineAgent`, also by another copy of this package? */
export function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && brand in value;
}

function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === 'object') {
    for (const item of Object.values(value)) deepFreeze(item);
    Object.freeze(value);
  }
  return value;
}
