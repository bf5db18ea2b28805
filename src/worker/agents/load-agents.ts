import { existsSync } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import { registerHooks } from 'node:module';
import { basename, extname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseDocument } from 'yaml';
import { RunError } from '../../shared/base/errors.ts';
import { type TaskDefinition, taskFile } from '../../shared/contract/orchestration/task.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';
import type { Tool } from '../tools/tool.ts';
import { isTaskAdapter, type TaskAdapter } from './adapter.ts';
import { defineAgent, isAgent, type Agent, type AgentSource } from './define-agent.ts';
import { isJudge, isMerge, type AnswerMerge, type MergeJudge } from './define-judge.ts';
import { describe, noTools, takeCarried, withNamed, type LoadedAgent, type ToolOffer } from './loaded-agent.ts';
import type { Skill } from '../../shared/contract/agent/skill.ts';
import { readSkillFile, skillFileName } from '../tools/builtin/read-skill.ts';
import { publicId } from '../../shared/base/ids.ts';
import { mentionsSecrets } from '../../shared/contract/node.ts';
import { checkedYaml } from '../../shared/base/yaml-file.ts';
import { deepFreeze } from '../../shared/base/json-value.ts';

/** The functions of the operator's own that a request can name, by id. */
export interface NamedFunctions {
  /** What merges the answers of a fan-out. */
  readonly judges: ReadonlyMap<string, MergeJudge>;
  readonly merges: ReadonlyMap<string, AnswerMerge>;
  /** What tasks work with. */
  readonly adapters: ReadonlyMap<string, TaskAdapter>;
}

export interface LoadedFolder extends NamedFunctions {
  readonly agents: ReadonlyMap<string, LoadedAgent>;
  /** By id. */
  readonly tasks: ReadonlyMap<string, TaskDefinition>;
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
    const { default: agent } = await imported(join(dir, file));
    if (isAgent(agent)) return agent;
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

/** Takes each module of a folder, in the order of their names; `take` answers what is wrong with it. */
async function eachModule(
  dir: string,
  problems: string[],
  take: (module: Readonly<Record<string, unknown>>, file: string) => readonly string[],
): Promise<void> {
  if (!existsSync(dir)) return;
  const isModule = (name: string) => moduleFile.test(name) && !name.endsWith('.d.ts');
  for (const file of (await readdir(dir)).filter(isModule).sort()) {
    const place = `${basename(dir)}/${file}`;
    try {
      problems.push(...take(await imported(join(dir, file)), file).map((problem) => `${place}: ${problem}`));
    } catch (error) {
      problems.push(`${place}: ${describe(error)}`);
    }
  }
}

async function imported(path: string): Promise<Readonly<Record<string, unknown>>> {
  return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
}

/** Modules that default-export what a capability brings; its name is the file's. */
async function loadCapabilities(dir: string, { register }: ToolOffer, problems: string[]): Promise<void> {
  await eachModule(dir, problems, ({ default: resolver }, file) => {
    if (typeof resolver !== 'function') return ['does not default-export a function'];
    register(basename(file, extname(file)), resolver as CapabilityResolver);
    return [];
  });
}

/** Modules that default-export an adapter of tasks. */
async function loadAdapters(dir: string, problems: string[]): Promise<Map<string, TaskAdapter>> {
  const adapters = new Map<string, TaskAdapter>();
  await eachModule(dir, problems, ({ default: adapter }) => {
    if (!isTaskAdapter(adapter)) return ['does not default-export defineTaskAdapter(…)'];
    if (adapters.has(adapter.id)) return [`task adapter ${adapter.id} is defined twice`];
    adapters.set(adapter.id, adapter);
    return [];
  });
  return adapters;
}

/** Modules that default-export a judge or a merge function. */
async function loadJudges(dir: string, problems: string[]): Promise<Pick<LoadedFolder, 'judges' | 'merges'>> {
  const judges = new Map<string, MergeJudge>();
  const merges = new Map<string, AnswerMerge>();
  await eachModule(dir, problems, ({ default: made }) => {
    if (!isJudge(made) && !isMerge(made)) return ['does not default-export defineJudge(…) or defineMerge(…)'];
    if (judges.has(made.id) || merges.has(made.id)) return [`${made.id} is defined twice`];
    if (isJudge(made)) judges.set(made.id, made);
    else merges.set(made.id, made);
    return [];
  });
  return { judges, merges };
}

/** Modules that export tools by any name. */
async function loadTools(dir: string, problems: string[]): Promise<Map<string, Tool>> {
  const tools = new Map<string, Tool>();
  await eachModule(dir, problems, (module) => {
    const found = Object.values(module).filter(isTool);
    const twice = found.filter((tool) => tools.has(tool.name) && tools.get(tool.name) !== tool);
    for (const tool of found) tools.set(tool.name, tool);
    if (found.length === 0) return ['exports no defineTool(…)'];
    return twice.map(({ name }) => `tool ${name} is defined twice`);
  });
  return tools;
}

function isTool(value: unknown): value is Tool {
  return typeof value === 'object' && value !== null && Symbol.for('millrace.tool') in value;
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

/** The skills of a folder by name: each is a folder with a `SKILL.md`. Adds every problem, and never stops at the first. */
async function loadSkills(dir: string, problems: string[]): Promise<ReadonlyMap<string, Skill>> {
  const skills = new Map<string, Skill>();
  if (!existsSync(dir)) return skills;
  for (const name of (await readdir(dir)).sort()) {
    const folder = join(dir, name);
    if (name.startsWith('.') || !(await isFolder(folder))) continue;
    const found = await problemsOrSkill(folder);
    if ('name' in found) skills.set(name, found);
    else problems.push(...found.map((problem) => `skills/${name}/${skillFileName}: ${problem}`));
  }
  return skills;
}

async function problemsOrSkill(folder: string): Promise<Skill | readonly string[]> {
  try {
    const { manifest } = await readSkillFile(folder);
    if (manifest.name === basename(folder)) return Object.freeze({ ...manifest, folder });
    return [`name: is ${manifest.name}, and has to be the name of its folder`];
  } catch (error) {
    if (error instanceof RunError && Array.isArray(error.details)) return error.details.map(String);
    return [error instanceof Error ? error.message : String(error)];
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/**
 * The task of this id, or undefined when there is none. A worker asks whenever it claims a run that works on one; all
 * workers have to get the same answer.
 */
export type LoadTask = (taskId: string) => TaskDefinition | undefined | Promise<TaskDefinition | undefined>;

/** The tasks of a folder by id, which is the name of the file. Adds every problem, and never stops at the first. */
async function loadTasks(dir: string, problems: string[]): Promise<ReadonlyMap<string, TaskDefinition>> {
  const tasks = new Map<string, TaskDefinition>();
  if (!existsSync(dir)) return tasks;
  for (const file of (await readdir(dir)).filter((name) => /\.ya?ml$/.test(name)).sort()) {
    const id = basename(file, extname(file));
    const found = await problemsOrTask(join(dir, file), id);
    if (!('id' in found)) problems.push(...found.map((problem) => `tasks/${file}: ${problem}`));
    else if (tasks.has(id)) problems.push(`tasks/${file}: task ${id} is already defined`);
    else tasks.set(id, deepFreeze(found));
  }
  return tasks;
}

async function problemsOrTask(path: string, id: string): Promise<TaskDefinition | readonly string[]> {
  try {
    const named = publicId.safeParse(id);
    if (!named.success) return named.error.issues.map(({ message }) => `its name ${message}`);
    const read = checkedYaml(await readFile(path, 'utf8'), taskFile);
    if (!read.ok) return read.problems;
    const { title, description } = read.value;
    if (mentionsSecrets(title) || mentionsSecrets(description)) return ['must not refer to {{ secrets.* }}'];
    return { id, ...read.value };
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}
