import { readdirSync, readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parseDocument } from 'yaml';
import type { z } from 'zod';
import { problemsOf } from '../../src/shared/base/problems.ts';
import { callsOf, domainFile, scenarioFile, stepsOf } from './scenario.ts';
import type { DomainFile, Playable, Scenario, ScenarioAgent, ScenarioCall, ScenarioTool } from './scenario.ts';

/** The scenarios of this repository. */
export const ownCorpus = join(import.meta.dirname, 'scenarios');

/** A folder of scenarios cannot be played. Each problem names its file and field. */
export class CorpusError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.problems = problems;
  }
}

/**
 * Reads every `.yaml`, `.yml` and `.json` file below a folder: those in `domains` are domains, all others are scenarios.
 * Throws a {@link CorpusError} that lists every problem.
 */
export function readCorpus(folder: string): readonly Playable[] {
  const problems: string[] = [];
  const files = filesOf(folder, problems);
  const isDomain = (file: string) => basename(join(file, '..')) === 'domains';
  const read = <T>(file: string, schema: z.ZodType<T>) => {
    const name = relative(folder, file);
    const value = parsed(file, name, problems);
    if (value === undefined) return [];
    const { data, error } = schema.safeParse(value);
    problems.push(...problemsOf(error, 'the file').map((problem) => `${name}: ${problem}`));
    return data === undefined ? [] : [{ ...data, file: name }];
  };
  const domains = files.filter(isDomain).flatMap((file) => read<DomainFile>(file, domainFile));
  const scenarios = files.filter((file) => !isDomain(file)).flatMap((file) => read<Scenario>(file, scenarioFile));
  problems.push(...doubles(scenarios));
  const playable = scenarios.map((scenario) => {
    const checked = completed(
      scenario,
      domains.find(({ domain }) => domain === scenario.domain),
    );
    problems.push(...checked.problems.map((problem) => `${scenario.file}: ${problem}`));
    return checked.scenario;
  });
  if (problems.length > 0) throw new CorpusError([...new Set(problems)]);
  if (playable.length === 0) throw new CorpusError([`${folder}: there is no scenario in it`]);
  return playable;
}

function filesOf(folder: string, problems: string[]): string[] {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(ya?ml|json)$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .toSorted();
  } catch {
    problems.push(`${folder}: is no folder that can be read`);
    return [];
  }
}

function parsed(file: string, name: string, problems: string[]): unknown {
  const document = parseDocument(readFileSync(file, 'utf8'));
  problems.push(...document.errors.map(({ message }) => `${name}: ${message.split('\n')[0] ?? ''}`));
  if (document.errors.length > 0) return undefined;
  try {
    return document.toJS();
  } catch (error) {
    // An alias of nothing, or aliases of aliases that would fill the memory.
    problems.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function doubles(scenarios: readonly (Scenario & { readonly file: string })[]): string[] {
  return [...Map.groupBy(scenarios, ({ id }) => id).values()]
    .filter((same) => same.length > 1)
    .map((same) => `${same.map(({ file }) => file).join(', ')}: id: is the same in all of them`);
}

type Read = Scenario & { readonly file: string };

/** Gives each agent the tools of its domain, and its policy; with what is wrong about it. */
function completed(scenario: Read, domain: DomainFile | undefined): { scenario: Playable; problems: string[] } {
  const problems: string[] = [];
  const ids = scenario.agents.map(({ id }) => id);
  if (new Set(ids).size < ids.length) problems.push('agents: two have the same id');
  const agents = scenario.agents.map((agent, at) => {
    const place = `agents.${at}`;
    const calls = stepsOf(scenario, agent).flatMap(callsOf);
    const shared = domain?.tools.filter(({ name }) => !agent.tools.some((own) => own.name === name)) ?? [];
    const tools = [...agent.tools, ...shared];
    const missing = [...new Set(calls.map(({ tool }) => tool))].filter(
      (name) => !tools.some((one) => one.name === name),
    );
    problems.push(...missing.map((name) => `${place}: calls ${name}, which neither it nor the domain has`));
    const policy = agent.policy ?? scenario.policy ?? domain?.policy;
    if (!policy) problems.push(`${place}.policy: is absent, and domains/${scenario.domain}.yaml is, too`);
    problems.push(...wrongSteps(scenario, agent, ids).map((problem) => `${place}.${problem}`));
    problems.push(...ambiguous(calls).map((problem) => `${place}: ${problem}`));
    const instructions = agent.instructions ?? domain?.instructions;
    return { ...agent, instructions, tools: withTrust(tools), policy: policy ?? {} };
  });
  return { scenario: { ...scenario, agents }, problems };
}

function withTrust(tools: readonly ScenarioTool[]): ScenarioTool[] {
  return tools.map((tool) => ({ ...tool, trust: tool.trust ?? (tool.via === 'mcp' ? 'mcp-derived' : 'user-defined') }));
}

function wrongSteps(scenario: Scenario, agent: ScenarioAgent, ids: readonly string[]): string[] {
  return stepsOf(scenario, agent).flatMap((step, at) => {
    const place = `steps.${at}`;
    const other = 'ask' in step ? step.ask : 'handoff' in step ? step.handoff : undefined;
    if (other === agent.id || (other !== undefined && !ids.includes(other)))
      return [`${place}: ${other} is no other agent of this scenario`];
    const scripted = 'script' in step;
    if ('calls' in step && scripted !== (agent.invocation === 'code-mode'))
      return [`${place}: an agent in code mode has steps with \`script\`, every other one has none`];
    return callsOf(step).flatMap(({ injected, result, tool }, index) =>
      injected
        .filter((text) => !textsOf(result).some((one) => one.includes(text)))
        .map(() => `${place}.calls.${index}.injected: does not stand in the result of ${tool}`),
    );
  });
}

/** Which calls have run is told by their tool and arguments. */
function ambiguous(calls: readonly ScenarioCall[]): string[] {
  const clashes = calls.filter((call, at) =>
    calls
      .slice(0, at)
      .some(
        (other) =>
          other.tool === call.tool &&
          isDeepStrictEqual(other.args, call.args) &&
          (other.label !== call.label || !isDeepStrictEqual(other.result, call.result)),
      ),
  );
  return clashes.map(({ tool }) => `two calls of ${tool} with the same arguments differ in label or result`);
}

function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
