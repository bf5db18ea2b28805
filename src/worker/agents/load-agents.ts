import { existsSync } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import nodeModule from 'node:module';
import { basename, extname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseDocument } from 'yaml';
import { RunError } from '../../shared/base/errors.ts';
import { type TaskDefinition, taskFile } from '../../shared/contract/orchestration/task.ts';
import type { CapabilityResolver } from '../tools/capabilities.ts';
import type { Tool } from '../tools/tool.ts';
import { isTaskAdapter, type TaskAdapter } from './adapter.ts';
import { defineAgent, isAgent, type Agent, type AgentSource } from './define-agent.ts';
import { isJudge, isMerge, madeWith, type AnswerMerge, type MergeJudge } from './define-judge.ts';
import { linesInModule, linesInYaml, placed, problemsIn, syntaxProblems, type LineOf } from './problem-lines.ts';
import { noTools, takeCarried, withNamed, type LoadedAgent, type ToolOffer } from './loaded-agent.ts';
import type { Skill } from '../../shared/contract/agent/skill.ts';
import { readSkillFile, skillFileName } from '../tools/builtin/read-skill.ts';
import { publicId } from '../../shared/base/ids.ts';
import { mentionsSecrets } from '../../shared/base/template-syntax.ts';
import { checkedYaml } from '../../shared/base/yaml-file.ts';
import { thereIsNo } from '../../shared/base/nearest.ts';
import { isRecord } from '../../shared/base/json.ts';
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
  /** What could be read of agents whose fields have problems, so that the names in them can be checked. */
  readonly incomplete: readonly LoadedAgent[];
  /** A problem of one of its files with its line. */
  readonly placed: (file: string, problem: string) => string;
  /** Paths of all modules that this process took for it, without packages: those outside of the folder too. */
  readonly modules: readonly string[];
}

const isModule = (file: string) => /(?<!\.d)\.(ts|mts|js|mjs)$/.test(file);
const isYaml = (file: string) => /\.ya?ml$/.test(file);

/**
 * Reads a folder of agents: modules that default-export `defineAgent(…)` and YAML files with the same fields, plus tool
 * modules in its `tools` folder, whose exported tools agents may name, modules in `capabilities`, `adapters` and `judges`, and what stands
 * in `skills` and `tasks`. Never stops at the first problem.
 */
export async function loadAgents(folder: string, offer: ToolOffer = noTools): Promise<LoadedFolder> {
  const dir = resolve(folder);
  if (!existsSync(dir)) {
    const problems = [`${folder}: there is no such folder (MILLRACE_AGENTS)`];
    return {
      agents: new Map(),
      tasks: new Map(),
      ...namedFunctions([], []),
      problems,
      warnings: [],
      incomplete: [],
      placed: (_, problem) => problem,
      modules: [],
    };
  }
  resolveOwnPackages();
  const [problems, warnings]: [string[], string[]] = [[], []];
  const shared = await loadTools(join(dir, 'tools'), problems);
  await loadCapabilities(join(dir, 'capabilities'), offer, problems);
  const skills = await loadSkills(join(dir, 'skills'), problems);
  const tasks = await loadTasks(join(dir, 'tasks'), problems);
  const adapters = await loadMade(join(dir, 'adapters'), problems, 'task adapter ', {
    'defineTaskAdapter(…)': isTaskAdapter,
  });
  const merging = await loadMade<MergeJudge | AnswerMerge>(join(dir, 'judges'), problems, '', {
    'defineJudge(…)': isJudge,
    'defineMerge(…)': isMerge,
  });
  const agents = new Map<string, LoadedAgent>();
  const lines = new Map<string, LineOf>();
  const broken = new Map<string, LoadedAgent>();
  for (const file of (await readdir(dir)).sort()) {
    const { agent, isWhole } = await readAgent(dir, file, lines, problems);
    if (!agent) continue;
    const { id } = agent.definition;
    if (agents.has(id)) problems.push(`${file}: agent ${id} is already defined in ${agents.get(id)?.file}`);
    else {
      const complete = withNamed(agent, { tools: [...shared.values()], skills }, offer);
      problems.push(...complete.problems.map((problem) => placed(file, lines.get(file), problem)));
      if (!isWhole) {
        broken.set(id, { ...complete.agent, file, folder: dir });
        continue;
      }
      const odd = [...complete.warnings, ...offer.warningsOf(agent.definition, complete.agent.tools)];
      warnings.push(...odd.map((warning) => placed(file, lines.get(file), warning)));
      agents.set(id, { ...complete.agent, file, folder: dir });
    }
  }
  takeCarried(agents, offer, problems);
  problems.push(...unknownOthers(agents, broken, lines));
  const functions = namedFunctions(merging, adapters);
  for (const id of functions.judges.keys())
    if (agents.has(id)) problems.push(`judges: judge ${id} has the name of an agent`);
  const place = (file: string, problem: string) => placed(file, lines.get(file), problem);
  return {
    agents,
    tasks,
    ...functions,
    problems,
    warnings,
    incomplete: [...broken.values()],
    placed: place,
    modules: [...taken],
  };
}

/** Of the same id the last one counts. */
export function namedFunctions(merging: readonly (MergeJudge | AnswerMerge)[], adapters: readonly TaskAdapter[]) {
  return {
    judges: new Map(merging.filter(isJudge).map((one) => [one.id, one])),
    merges: new Map(merging.filter(isMerge).map((one) => [one.id, one])),
    adapters: new Map(adapters.map((one) => [one.id, one])),
  };
}

/** Agents that others want to ask and that are not there. */
function unknownOthers(
  agents: ReadonlyMap<string, LoadedAgent>,
  broken: ReadonlyMap<string, LoadedAgent>,
  lines: ReadonlyMap<string, LineOf>,
): string[] {
  const known = [...agents.keys(), ...broken.keys()];
  return [...agents.values(), ...broken.values()].flatMap(({ definition, file }) => {
    const named = [
      ...definition.subagents.filter((id) => id !== '*').map((id) => ['subagents', id] as const),
      ...definition.handoffs.map(({ agent }) => ['handoffs', agent] as const),
      ...Object.values(definition.agentTools).map(({ agent }) => ['agentTools', agent] as const),
    ];
    return named
      .filter(([, id]) => !known.includes(id))
      .map(([field, id]) => `${field}: ${thereIsNo('agent', id, known)}`)
      .map((problem) => placed(file, lines.get(file), problem));
  });
}

/** Adds what is wrong with the file, or in which lines its fields are. */
async function readAgent(dir: string, file: string, lines: Map<string, LineOf>, problems: string[]) {
  const path = join(dir, file);
  let source: AgentSource | undefined;
  try {
    if (isYaml(file)) {
      const text = await readFile(path, 'utf8');
      lines.set(file, linesInYaml(text));
      source = yamlSource(text, basename(file, extname(file)));
      return { agent: defineAgent(source), isWhole: true };
    }
    if (!isModule(file)) return nothing;
    const { default: agent } = await imported(path);
    if (isAgent(agent)) return { agent, isWhole: true };
    problems.push(`${file}: does not default-export defineAgent(…)`);
  } catch (error) {
    const lineOf = lines.get(file) ?? linesInModule(error, path);
    const found = problemsIn(error);
    problems.push(...found.map((problem) => placed(file, lineOf, problem)));
    if (source) return { agent: withoutFields(source, found), isWhole: false };
  }
  return nothing;
}

/** `isWhole`: all of the file. Else what of it could be read, to check the names in it, too. */
interface ReadAgent {
  readonly agent: Agent | undefined;
  readonly isWhole: boolean;
}
const nothing: ReadAgent = { agent: undefined, isWhole: false };

/** Stands for the model of an agent that names none. */
export const unknownModel = 'unknown';

/** The agent without the fields that have problems; undefined where that is none either. */
function withoutFields(source: AgentSource, problems: readonly string[]): Agent | undefined {
  const wrong = new Set(problems.map((problem) => /^[^\s.:]+(?=[.:])/.exec(problem)?.[0]));
  const { id, ...rest } = Object.fromEntries(Object.entries(source).filter(([field]) => !wrong.has(field)));
  try {
    return defineAgent({ model: unknownModel, ...rest, id: id ?? 'unknown' });
  } catch {
    return undefined;
  }
}

function yamlSource(text: string, id: string): AgentSource {
  const syntax = syntaxProblems(text);
  if (syntax.length > 0) throw new RunError('agent_manifest_invalid', syntax.join('\n'), { details: syntax });
  const value: unknown = parseDocument(text).toJS({ maxAliasCount: 100 });
  if (!isRecord(value)) throw new RunError('agent_manifest_invalid', 'is not a mapping of agent fields');
  return { id, ...value } as AgentSource;
}

/** Takes what a folder has of such names, in their order; `take` answers, or throws, what is wrong with it. */
async function eachIn(
  dir: string,
  isWanted: (name: string) => boolean,
  problems: string[],
  take: (path: string, name: string) => Promise<readonly string[]>,
  inside = '',
): Promise<void> {
  if (!existsSync(dir)) return;
  for (const name of (await readdir(dir)).filter(isWanted).sort()) {
    const path = join(dir, name);
    let lineOf: LineOf | undefined;
    const found = await take(path, name).catch((error: unknown) => {
      lineOf = linesInModule(error, path);
      return problemsIn(error);
    });
    if (found.length > 0 && isYaml(name)) lineOf = linesInYaml(await readFile(path, 'utf8'));
    problems.push(...found.map((problem) => placed(`${basename(dir)}/${name}${inside}`, lineOf, problem)));
  }
}

async function imported(path: string): Promise<Readonly<Record<string, unknown>>> {
  return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
}

/** Modules that default-export what a capability brings; its name is the file's. */
async function loadCapabilities(dir: string, { register }: ToolOffer, problems: string[]): Promise<void> {
  await eachIn(dir, isModule, problems, async (path, file) => {
    const { default: resolver } = await imported(path);
    if (typeof resolver !== 'function') return ['does not default-export a function'];
    register(basename(file, extname(file)), resolver as CapabilityResolver);
    return [];
  });
}

/** Modules that default-export what one of these functions makes. */
async function loadMade<T extends { readonly id: string }>(
  dir: string,
  problems: string[],
  what: string,
  makers: Readonly<Record<string, (value: unknown) => value is T>>,
): Promise<readonly T[]> {
  const found: T[] = [];
  await eachIn(dir, isModule, problems, async (path) => {
    const { default: made } = await imported(path);
    const isMade = Object.values(makers).find((one) => one(made));
    if (!isMade?.(made)) return [`does not default-export ${Object.keys(makers).join(' or ')}`];
    if (found.some(({ id }) => id === made.id)) return [`${what}${made.id} is defined twice`];
    found.push(made);
    return [];
  });
  return found;
}

/** Modules that export tools by any name. */
async function loadTools(dir: string, problems: string[]): Promise<Map<string, Tool>> {
  const tools = new Map<string, Tool>();
  await eachIn(dir, isModule, problems, async (path) => {
    const found = Object.values(await imported(path)).filter(isTool);
    const twice = found.filter((tool) => tools.has(tool.name) && tools.get(tool.name) !== tool);
    for (const tool of found) tools.set(tool.name, tool);
    if (found.length === 0) return ['exports no defineTool(…)'];
    return twice.map(({ name }) => `tool ${name} is defined twice`);
  });
  return tools;
}

const isTool = madeWith<Tool>(Symbol.for('millrace.tool'));

let hooked = false;
/** Modules that are neither of a package nor of this program. */
const taken = new Set<string>();
const program = new URL('../../', import.meta.url).href;

function note(url: string): void {
  if (url.startsWith('file:') && !url.startsWith(program) && !url.includes('/node_modules/'))
    taken.add(fileURLToPath(url));
}

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
  nodeModule.registerHooks({
    resolve(specifier, context, next) {
      const url = own[specifier];
      if (url) return { url, shortCircuit: true };
      const found = next(specifier, context);
      note(found.url);
      return found;
    },
  });
}

/** The skills of a folder by name: each is a folder with a `SKILL.md`. Adds every problem, and never stops at the first. */
async function loadSkills(dir: string, problems: string[]): Promise<ReadonlyMap<string, Skill>> {
  const skills = new Map<string, Skill>();
  const isShown = (name: string) => !name.startsWith('.');
  const take = async (folder: string, name: string) => {
    if (!(await isFolder(folder))) return [];
    try {
      const { manifest } = await readSkillFile(folder);
      if (manifest.name !== name) return [`name: is ${manifest.name}, and has to be the name of its folder`];
      skills.set(name, Object.freeze({ ...manifest, folder }));
      return [];
    } catch (error) {
      if (error instanceof RunError && Array.isArray(error.details)) return error.details.map(String);
      throw error;
    }
  };
  await eachIn(dir, isShown, problems, take, `/${skillFileName}`);
  return skills;
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
  await eachIn(dir, isYaml, problems, async (path, file) => {
    const id = basename(file, extname(file));
    const named = publicId.safeParse(id);
    if (!named.success) return named.error.issues.map(({ message }) => `its name ${message}`);
    const read = checkedYaml(await readFile(path, 'utf8'), taskFile);
    if (!read.ok) return read.problems;
    const { title, description } = read.value;
    if (mentionsSecrets(title) || mentionsSecrets(description)) return ['must not refer to {{ secrets.* }}'];
    if (tasks.has(id)) return [`task ${id} is already defined`];
    tasks.set(id, deepFreeze({ id, ...read.value }));
    return [];
  });
  return tasks;
}
