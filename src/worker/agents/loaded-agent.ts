import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { messageOf, RunError } from '../../shared/base/errors.ts';
import { serverPrefix, serverTool } from '../../shared/contract/agent/mcp.ts';
import { thereIsNo } from '../../shared/base/nearest.ts';
import type { Skill } from '../../shared/contract/agent/skill.ts';
import { handoffToolName } from '../tools/builtin/agents.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';
import { grantsOf, isReservedName } from '../tools/names.ts';
import type { Tool } from '../tools/tool.ts';
import { invalidManifest } from './define-judge.ts';
import { isAgent, type Agent } from './define-agent.ts';
import { flowProblems } from './flow-problems.ts';

/** An agent whose tool names have all been found. */
export interface LoadedAgent extends Agent {
  readonly file: string;
  /** Where that file is. Absent: the agent was given as an object. */
  readonly folder?: string;
  /** Those that it names. */
  readonly skills?: readonly Skill[];
}

/** Adds the agents that the tools of other agents carry. An agent that was loaded by itself wins over a carried one of its id. */
export function takeCarried(agents: Map<string, LoadedAgent>, offer: ToolOffer, problems: string[]): void {
  // A map that grows while it is gone through: what a carried agent carries is found as well.
  for (const { tools, file } of agents.values()) {
    for (const { carries } of tools) {
      if (!isAgent(carries) || agents.has(carries.definition.id)) continue;
      try {
        agents.set(carries.definition.id, { ...loadedFrom(carries, offer), file });
      } catch (error) {
        problems.push(`${file}: ${messageOf(error)}`);
      }
    }
  }
}

/** Agents given as objects, with those that come with their tools, by id. Throws `agent_manifest_invalid`. */
export function loadedAll(given: readonly Agent[], offer: ToolOffer = noTools): Map<string, LoadedAgent> {
  const agents = new Map(given.map((agent) => [agent.definition.id, loadedFrom(agent, offer)]));
  const problems: string[] = [];
  takeCarried(agents, offer, problems);
  if (problems.length === 0) return agents;
  throw new RunError('agent_manifest_invalid', problems.join('\n'), { details: problems });
}

/** The tools that agents may name beside their own. */
export interface ToolOffer {
  readonly names: readonly string[];
  /** Made for this agent. Throws what is missing for it; undefined for a name that is none of these. */
  find(name: string, definition: AgentDefinition): Tool | undefined;
  /** Takes what a capability brings. Throws `validation` for a name that is taken. */
  readonly register: (name: string, resolver: CapabilityResolver) => void;
  /** What is wrong about an agent that only the worker that offers it can see. */
  problemsOf(definition: AgentDefinition): readonly string[];
  /** What is odd about it, and yet no error. */
  warningsOf(definition: AgentDefinition, tools: readonly Tool[]): readonly string[];
}

/** Nothing is offered. */
export const noTools: ToolOffer = {
  names: [],
  find: () => undefined,
  register: () => {},
  problemsOf: () => [],
  warningsOf: () => [],
};

/** The agent with what its names stand for. Tools: its own, those beside it, then those that are offered. */
export function withNamed(
  agent: Agent,
  beside: { readonly tools: readonly Tool[]; readonly skills: ReadonlyMap<string, Skill> },
  offer: ToolOffer,
) {
  const { definition } = agent;
  const own = new Map([...beside.tools, ...agent.tools].map((tool) => [tool.name, tool]));
  const problems = [...offer.problemsOf(definition)];
  const tools: Tool[] = [];
  for (const name of definition.tools) {
    if (name.startsWith(serverPrefix)) continue;
    try {
      const tool = own.get(name) ?? offer.find(name, definition);
      if (tool) tools.push(tool);
      else problems.push(thereIsNo('tool', name, [...own.keys(), ...offer.names]));
    } catch (error) {
      problems.push(`tool ${name}: ${messageOf(error)}`);
    }
  }
  const { agentTools, handoffs } = definition;
  const others = [...Object.keys(agentTools), ...handoffs.map(({ agent: to }) => handoffToolName(to))];
  problems.push(...reservedNames(definition, tools), ...optionProblems(definition, tools, others));
  problems.push(...flowProblems(definition, tools, others));
  // What servers and capabilities bring is known only once they run.
  const bringsMore =
    definition.capabilities.length > 0 || definition.tools.some((name) => name.startsWith(serverPrefix));
  const skills = [...new Set(definition.skills)].flatMap((name) => {
    const skill = beside.skills.get(name);
    if (!skill) problems.push(thereIsNo('skill', name, beside.skills.keys()));
    return skill ? [skill] : [];
  });
  const warnings = bringsMore ? [] : skills.flatMap((skill) => missingTools(skill, tools));
  return { agent: { ...agent, tools, skills }, problems, warnings };
}

function reservedNames({ agentTools }: AgentDefinition, tools: readonly Tool[]): string[] {
  return [...tools.map(({ name }) => name), ...Object.keys(agentTools)]
    .filter(isReservedName)
    .map((name) => `tool ${name}: this name is reserved for a tool of this package; give it another one`);
}

/** Options for tools that the agent cannot have. Those that only a capability brings are known once it is asked. */
function optionProblems(definition: AgentDefinition, tools: readonly Tool[], others: readonly string[]): string[] {
  const { toolOptions, capabilities, mcpServers } = definition;
  const own = new Set([...tools.map(({ name }) => name), ...others]);
  const grants = grantsOf(definition);
  return Object.keys(toolOptions).flatMap((key) => {
    if (capabilities.length > 0 || own.has(key) || isReservedName(key)) return [];
    if (!key.startsWith(serverPrefix)) {
      const hint = grants.size > 0 ? `; a tool of a server is ${serverPrefix}<server>/<tool>` : '';
      return [`toolOptions.${key}: the agent has no tool of this name${hint}`];
    }
    const { server, tool } = serverTool(key);
    if (tool === undefined || tool === '') return [`toolOptions.${key}: must be ${serverPrefix}<server>/<tool>`];
    if (!Object.hasOwn(mcpServers, server) || !grants.has(server))
      return [`toolOptions.${key}: the agent is granted no MCP server ${server}`];
    return [];
  });
}

/** A skill grants nothing: tools that it is written for have to be the agent's already. */
function missingTools({ name, allowedTools }: Skill, tools: readonly Tool[]): string[] {
  const has = new Set(tools.map((tool) => tool.name));
  const missing = allowedTools.filter((tool) => !has.has(tool.split('(')[0] ?? ''));
  if (missing.length === 0) return [];
  return [`skill ${name} is written for tools that the agent does not have: ${missing.join(', ')}`];
}

/**
 * An agent given as an object: there is no folder to look its tools and skills up in, except those that one from a folder has
 * already. Throws `agent_manifest_invalid`.
 */
export function loadedFrom(
  agent: Agent & Partial<Pick<LoadedAgent, 'file' | 'skills'>>,
  offer: ToolOffer = noTools,
): LoadedAgent {
  const { file = '', skills = [] } = agent;
  const complete = withNamed(agent, { tools: [], skills: new Map(skills.map((skill) => [skill.name, skill])) }, offer);
  if (complete.problems.length > 0) throw invalidManifest('agent', agent.definition.id, complete.problems);
  return { ...complete.agent, file };
}
