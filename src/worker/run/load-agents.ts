import { existsSync } from 'node:fs';
import { readFile, readdir } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { basename, extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseDocument } from 'yaml';
import { RunError } from '../../shared/errors.ts';
import type { Tool } from '../tools/tool.ts';
import { defineAgent, isAgent, type Agent, type AgentSource } from './define-agent.ts';

/** An agent whose tool names have all been found. */
export interface LoadedAgent extends Agent {
  readonly file: string;
}

export interface LoadedFolder {
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  /** Every problem of every file, each with the file's name; empty when the folder is fine. */
  readonly problems: readonly string[];
}

const moduleFile = /\.(ts|mts|js|mjs)$/;
const yamlFile = /\.ya?ml$/;

/**
 * Reads a folder of agents: modules that default-export `defineAgent(…)` and YAML files with the same fields, plus tool
 * modules in its `tools` folder, whose exported tools agents may name. Never stops at the first problem.
 */
export async function loadAgents(folder: string): Promise<LoadedFolder> {
  const dir = resolve(folder);
  if (!existsSync(dir))
    return { agents: new Map(), problems: [`${folder}: there is no such folder (MILLRACE_AGENTS)`] };
  resolveOwnPackages();
  const problems: string[] = [];
  const shared = await loadTools(join(dir, 'tools'), problems);
  const agents = new Map<string, LoadedAgent>();
  for (const file of (await readdir(dir)).sort()) {
    const agent = await readAgent(dir, file, problems);
    if (!agent) continue;
    const { id } = agent.definition;
    if (agents.has(id)) problems.push(`${file}: agent ${id} is already defined in ${agents.get(id)?.file}`);
    else agents.set(id, { ...withTools(agent, shared, file, problems), file });
  }
  return { agents, problems };
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

function withTools(agent: Agent, shared: ReadonlyMap<string, Tool>, file: string, problems: string[]): Agent {
  const own = new Map(agent.tools.map((tool) => [tool.name, tool]));
  const tools: Tool[] = [];
  for (const name of agent.definition.tools) {
    const tool = own.get(name) ?? shared.get(name);
    if (tool) tools.push(tool);
    else
      problems.push(
        `${file}: there is no tool ${name}; known are ${[...own.keys(), ...shared.keys()].join(', ') || 'none'}`,
      );
  }
  return { ...agent, tools };
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

/** An agent given as an object must bring its tools along: there is no folder to look names up in. */
export function loadedFrom(agent: Agent): LoadedAgent {
  const own = new Set(agent.tools.map((tool) => tool.name));
  const missing = agent.definition.tools.filter((name) => !own.has(name));
  if (missing.length > 0) {
    throw new RunError(
      'agent_manifest_invalid',
      `agent ${agent.definition.id}: tools ${missing.join(', ')} are named but not given`,
    );
  }
  return { ...agent, file: '' };
}
