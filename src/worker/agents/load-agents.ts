import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { basename, extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseDocument } from 'yaml';
import type { AgentDefinition } from '../../shared/contract/agent/agent.ts';
import { RunError } from '../../shared/base/errors.ts';
import { serverPrefix, serverTool } from '../../shared/contract/agent/mcp.ts';
import { handoffToolName } from '../tools/builtin/hand-off.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';
import { grantsOf } from '../tools/mcp/grants.ts';
import { isReservedName } from '../tools/names.ts';
import type { Tool } from '../tools/tool.ts';
import type { Skill } from '../../shared/contract/agent/skill.ts';
import type { TaskDefinition } from '../../shared/contract/orchestration/task-definition.ts';
import { isJudge, isMerge, type AnswerMerge, type MergeJudge } from './define-judge.ts';
import { defineAgent, isAgent, type Agent, type AgentSource } from './define-agent.ts';
import { loadSkills } from './load-skills.ts';
import { loadTasks } from './load-tasks.ts';
import { isTaskAdapter, type TaskAdapter } from './adapter.ts';

/** An agent whose tool names have all been found. */
export interface LoadedAgent extends Agent {
  readonly file: string;
  /** Where that file is. Absent: the agent was given as an object. */
  readonly folder?: string;
  /** Those that it names. */
  readonly skills?: readonly Skill[];
}

export interface LoadedFolder {
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  /** By id. */
  readonly tasks: ReadonlyMap<string, TaskDefinition>;
  /** Adapters of tasks, by id. */
  readonly adapters: ReadonlyMap<string, TaskAdapter>;
  /** What merges the answers of a fan-out, by id. */
  readonly judges: ReadonlyMap<string, MergeJudge>;
  readonly merges: ReadonlyMap<string, AnswerMerge>;
  /** Every problem of every file, each with the file's name; empty when the folder is fine. */
  readonly problems: readonly string[];
  /** What is odd and yet no error. */
  readonly warnings: readonly string[];
}

const moduleFile = /\.(ts|mts|js|mjs)$/;
const yamlFile = /\.ya?ml$/;

/**
 * Reads a folder of agents: modules that default-export `defineAgent(…)` and YAML files with the same fields, plus tool
 * modules in its `tools` folder, whose exported tools agents may name, modules in `capabilities`, `adapters` and `judges`, and what stands
 * in `skills` and `tasks`. Never stops at the first problem.
 */
export async function loadAgents(folder: string, offer: ToolOffer = noTools): Promise<LoadedFolder> {
  const dir = resolve(folder);
  if (!existsSync(dir))
    return {
      agents: new Map(),
      tasks: new Map(),
      adapters: new Map(),
      judges: new Map(),
      merges: new Map(),
      problems: [`${folder}: there is no such folder (MILLRACE_AGENTS)`],
      warnings: [],
    };
  resolveOwnPackages();
  const [problems, warnings]: [string[], string[]] = [[], []];
  const shared = await loadTools(join(dir, 'tools'), problems);
  await loadCapabilities(join(dir, 'capabilities'), offer, problems);
  const skills = await loadSkills(join(dir, 'skills'), problems);
  const tasks = await loadTasks(join(dir, 'tasks'), problems);
  const adapters = await loadAdapters(join(dir, 'adapters'), problems);
  const { judges, merges } = await loadJudges(join(dir, 'judges'), problems);
  const agents = new Map<string, LoadedAgent>();
  for (const file of (await readdir(dir)).sort()) {
    const agent = await readAgent(dir, file, problems);
    if (!agent) continue;
    const { id } = agent.definition;
    if (agents.has(id)) problems.push(`${file}: agent ${id} is already defined in ${agents.get(id)?.file}`);
    else {
      const complete = withNamed(agent, { tools: [...shared.values()], skills }, offer);
      problems.push(...complete.problems.map((problem) => `${file}: ${problem}`));
      const odd = [...complete.warnings, ...offer.warningsOf(agent.definition, complete.agent.tools)];
      warnings.push(...odd.map((warning) => `${file}: ${warning}`));
      agents.set(id, { ...complete.agent, file, folder: dir });
    }
  }
  takeCarried(agents, offer, problems);
  problems.push(...unknownOthers(agents));
  for (const id of judges.keys()) if (agents.has(id)) problems.push(`judges: judge ${id} has the name of an agent`);
  return { agents, tasks, adapters, judges, merges, problems, warnings };
}

/** Agents that come with the tools of others are agents of this worker, too; one that is loaded by itself goes before. */
function takeCarried(agents: Map<string, LoadedAgent>, offer: ToolOffer, problems: string[]): void {
  // A map that grows while it is gone through: what a carried agent carries is found as well.
  for (const { tools, file } of agents.values()) {
    for (const { carries } of tools) {
      if (!isAgent(carries) || agents.has(carries.definition.id)) continue;
      try {
        agents.set(carries.definition.id, { ...loadedFrom(carries, offer), file });
      } catch (error) {
        problems.push(`${file}: ${describe(error)}`);
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

/** Agents that others want to ask and that are not there. */
function unknownOthers(agents: ReadonlyMap<string, LoadedAgent>): string[] {
  return [...agents.values()].flatMap(({ definition, file }) => {
    const named = [
      ...definition.subagents.filter((id) => id !== '*').map((id) => ['subagents', id] as const),
      ...definition.handoffs.map(({ agent }) => ['handoffs', agent] as const),
      ...Object.values(definition.agentTools).map(({ agent }) => ['agentTools', agent] as const),
    ];
    return named
      .filter(([, id]) => !agents.has(id))
      .map(([field, id]) => `${file}: ${field}: there is no agent ${id}; known are ${[...agents.keys()].join(', ')}`);
  });
}

async function readAgent(dir: string, file: string, problems: string[]): Promise<Agent | undefined> {
  const id = basename(file, extname(file));
  try {
    if (yamlFile.test(file)) return defineAgent(await readYaml(join(dir, file), id));
    if (!moduleFile.test(file) || file.endsWith('.d.ts')) return undefined;
    const module = (await import(pathToFileURL(join(dir, file)).href)) as { default?: unknown };
    if (isAgent(module.default)) return module.default;
    problems.push(`${file}: does not default-export defineAgent(…)`);
  } catch (error) {
    problems.push(`${file}: ${describe(error)}`);
  }
  return undefined;
}

async function readYaml(path: string, id: string): Promise<AgentSource> {
  const document = parseDocument(await readFile(path, 'utf8'), { prettyErrors: true });
  if (document.errors.length > 0)
    throw new RunError('agent_manifest_invalid', document.errors.map((e) => e.message).join('\n'));
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new RunError('agent_manifest_invalid', 'is not a mapping of agent fields');
  }
  return { id, ...value } as AgentSource;
}

/** Modules that default-export what a capability brings; its name is the file's. */
async function loadCapabilities(dir: string, { register }: ToolOffer, problems: string[]): Promise<void> {
  if (!existsSync(dir)) return;
  for (const file of (await readdir(dir)).filter((name) => moduleFile.test(name) && !name.endsWith('.d.ts')).sort()) {
    try {
      const module = (await import(pathToFileURL(join(dir, file)).href)) as { default?: unknown };
      if (typeof module.default === 'function')
        register(basename(file, extname(file)), module.default as CapabilityResolver);
      else problems.push(`capabilities/${file}: does not default-export a function`);
    } catch (error) {
      problems.push(`capabilities/${file}: ${describe(error)}`);
    }
  }
}

/** Modules that default-export an adapter of tasks. */
async function loadAdapters(dir: string, problems: string[]): Promise<Map<string, TaskAdapter>> {
  const adapters = new Map<string, TaskAdapter>();
  if (!existsSync(dir)) return adapters;
  for (const file of (await readdir(dir)).filter((name) => moduleFile.test(name) && !name.endsWith('.d.ts')).sort()) {
    try {
      const { default: adapter } = (await import(pathToFileURL(join(dir, file)).href)) as { default?: unknown };
      if (!isTaskAdapter(adapter)) problems.push(`adapters/${file}: does not default-export defineTaskAdapter(…)`);
      else if (adapters.has(adapter.id)) problems.push(`adapters/${file}: task adapter ${adapter.id} is defined twice`);
      else adapters.set(adapter.id, adapter);
    } catch (error) {
      problems.push(`adapters/${file}: ${describe(error)}`);
    }
  }
  return adapters;
}

/** Modules that default-export a judge or a merge function. */
async function loadJudges(dir: string, problems: string[]): Promise<Pick<LoadedFolder, 'judges' | 'merges'>> {
  const judges = new Map<string, MergeJudge>();
  const merges = new Map<string, AnswerMerge>();
  if (!existsSync(dir)) return { judges, merges };
  for (const file of (await readdir(dir)).filter((name) => moduleFile.test(name) && !name.endsWith('.d.ts')).sort()) {
    try {
      const { default: made } = (await import(pathToFileURL(join(dir, file)).href)) as { default?: unknown };
      if (!isJudge(made) && !isMerge(made))
        problems.push(`judges/${file}: does not default-export defineJudge(…) or defineMerge(…)`);
      else if (judges.has(made.id) || merges.has(made.id)) problems.push(`judges/${file}: ${made.id} is defined twice`);
      else if (isJudge(made)) judges.set(made.id, made);
      else merges.set(made.id, made);
    } catch (error) {
      problems.push(`judges/${file}: ${describe(error)}`);
    }
  }
  return { judges, merges };
}

async function loadTools(dir: string, problems: string[]): Promise<Map<string, Tool>> {
  const tools = new Map<string, Tool>();
  if (!existsSync(dir)) return tools;
  for (const file of (await readdir(dir)).filter((name) => moduleFile.test(name) && !name.endsWith('.d.ts')).sort()) {
    try {
      const module = (await import(pathToFileURL(join(dir, file)).href)) as Record<string, unknown>;
      const found = Object.values(module).filter(isTool);
      if (found.length === 0) problems.push(`tools/${file}: exports no defineTool(…)`);
      for (const tool of found) {
        if (tools.has(tool.name) && tools.get(tool.name) !== tool)
          problems.push(`tools/${file}: tool ${tool.name} is defined twice`);
        tools.set(tool.name, tool);
      }
    } catch (error) {
      problems.push(`tools/${file}: ${describe(error)}`);
    }
  }
  return tools;
}

/** The tools that agents may name beside their own. */
export interface ToolOffer {
  readonly names: readonly string[];
  /** Made for this agent. Throws what is missing for it; undefined for a name that is none of these. */
  find(name: string, definition: AgentDefinition): Tool | undefined;
  /** Takes what a capability brings. Throws `validation` for a name that is taken. */
  readonly register: (name: string, resolver: CapabilityResolver) => void;
  /** What is wrong about an agent that only whoever offers them can see. */
  problemsOf(definition: AgentDefinition): readonly string[];
  /** What is odd about it, and yet no error. */
  warningsOf(definition: AgentDefinition, tools: readonly Tool[]): readonly string[];
}

const noTools: ToolOffer = {
  names: [],
  find: () => undefined,
  register: () => {},
  problemsOf: () => [],
  warningsOf: () => [],
};

/** What stands beside an agent. */
interface Beside {
  readonly tools: readonly Tool[];
  readonly skills: ReadonlyMap<string, Skill>;
}

interface Complete {
  readonly agent: Agent & { readonly skills: readonly Skill[] };
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** The agent with what its names stand for. Tools: its own, those beside it, then those that are offered. */
function withNamed(agent: Agent, beside: Beside, offer: ToolOffer): Complete {
  const { definition } = agent;
  const own = new Map([...beside.tools, ...agent.tools].map((tool) => [tool.name, tool]));
  const problems = [...offer.problemsOf(definition)];
  const tools: Tool[] = [];
  for (const name of definition.tools) {
    if (name.startsWith(serverPrefix)) continue;
    try {
      const tool = own.get(name) ?? offer.find(name, definition);
      if (tool) tools.push(tool);
      else problems.push(`there is no tool ${name}; known are ${[...own.keys(), ...offer.names].join(', ') || 'none'}`);
    } catch (error) {
      problems.push(`tool ${name}: ${describe(error)}`);
    }
  }
  problems.push(...reservedNames(definition, tools), ...optionProblems(definition, tools));
  // What servers and capabilities bring is known only once they run.
  const bringsMore =
    definition.capabilities.length > 0 || definition.tools.some((name) => name.startsWith(serverPrefix));
  const skills = [...new Set(definition.skills)].flatMap((name) => {
    const skill = beside.skills.get(name);
    if (!skill) problems.push(`there is no skill ${name}; known are ${[...beside.skills.keys()].join(', ') || 'none'}`);
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
function optionProblems(definition: AgentDefinition, tools: readonly Tool[]): string[] {
  const { toolOptions, capabilities, mcpServers, agentTools, handoffs } = definition;
  const others = [...Object.keys(agentTools), ...handoffs.map(({ agent }) => handoffToolName(agent))];
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
  return missing.length > 0
    ? [`skill ${name} is written for tools that the agent does not have: ${missing.join(', ')}`]
    : [];
}

function isTool(value: unknown): value is Tool {
  return typeof value === 'object' && value !== null && Symbol.for('millrace.tool') in value;
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

let hooked = false;

/**
 * A mounted folder needs no node_modules of its own: `millrace`, `millrace/worker` and `zod` resolve to the running
 * installation, so that there is one copy of each.
 */
function resolveOwnPackages(): void {
  if (hooked) return;
  hooked = true;
  const extension = extname(import.meta.url);
  const own: Record<string, string> = {
    millrace: new URL(`../../producer/index${extension}`, import.meta.url).href,
    'millrace/worker': new URL(`../index${extension}`, import.meta.url).href,
    zod: import.meta.resolve('zod'),
  };
  registerHooks({
    resolve(specifier, context, next) {
      const url = own[specifier];
      return url ? { url, shortCircuit: true } : next(specifier, context);
    },
  });
}

/** An agent given as an object: there is no folder to look its tools and skills up in. Throws `agent_manifest_invalid`. */
export function loadedFrom(agent: Agent, offer: ToolOffer = noTools): LoadedAgent {
  const complete = withNamed(agent, { tools: [], skills: new Map() }, offer);
  if (complete.problems.length > 0) {
    const { id } = agent.definition;
    throw new RunError('agent_manifest_invalid', `agent ${id}:\n  ${complete.problems.join('\n  ')}`, {
      details: complete.problems,
    });
  }
  return { ...complete.agent, file: '' };
}
